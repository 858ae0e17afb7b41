"""Events about pods and cards, and the texts of refusals.

A decision comes in, or cards that are closed. Kubernetes events go out through the recorder of ``kube``, and for a pod
that fits nowhere the text for each node in the answer of a Filter.

``refusals`` keeps the texts of pods that fit nowhere, which ``refusedpods`` tells; ``closedcards`` makes those of
closed cards, ``unserved`` those of pods that wait for a device plugin, ``mistyped`` those of resources that nobody has.
The sentences about decisions are in ``engine/decision/event_messages.py``.
"""
