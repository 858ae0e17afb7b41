"""The texts of events and of refusals, and recording them on an object.

A decision comes in, or cards that are closed. Kubernetes events go out through the recorder of ``kube``, and for a pod
that fits nowhere the text for each node in the answer of a Filter.

``refusals`` makes the texts of pods that fit nowhere, ``closedcards`` those of closed cards, and ``record`` puts an
event on a pod. The sentences themselves are in ``engine/decision/event_messages.py``.
"""
