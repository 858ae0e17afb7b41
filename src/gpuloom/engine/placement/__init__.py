"""Place: which cards of a node the containers of a pod get.

In: a ``NodeBatch``, the cards of some nodes or of one with a row for each, and a demand. Out: for each node a
``Placement``, or ``Unplaced``: why not, and at which container. ``Placer`` places container after container on all
nodes of the batch: it asks the rules, chooses cards by columns, and books them (``booking``). What depends on several
cards of one node is decided by trying them in order (``card_choice``): NUMA groups, linked cards (``linked_cards``),
divided cards, a quota that is nearly used up (``quota_test``). A node of which the filter results tell that it fits
is placed on in a quick way (``node_placer``). Which nodes took pods of the same class is remembered until they change
(``placement_cache``).
"""
