"""Place: which cards of a node the containers of a pod get.

In: a node's cards and a demand. Out: a ``Placement``, or ``Unplaced``: why not, and at which container. ``NodePlacer``
takes the quick way where single cards decide; ``ContainerPlacer`` places container by container on a copy of one node,
with NUMA groups, linked cards, divided cards and tight quotas (``card_walk``, ``linked_cards``); ``BatchPlacer`` does
the same for many nodes at once where cards can be chosen one by one. Which nodes took pods of the same class is
remembered until they change (``placement_cache``).
"""
