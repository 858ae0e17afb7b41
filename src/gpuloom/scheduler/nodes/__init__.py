"""The node loop: from what nodes say about their cards to the card table (scheduler 8).

A node as the watch shows it comes in, and the time. Registered cards go out, to the engine's tables, and patches of
the handshake annotation, to the API server.

``handler`` takes each change of a node, ``resync`` looks at all nodes again every few seconds. ``health`` decides
whether the device plugin of a vendor lives, and what to write; ``handshakes`` writes it. ``missingcards`` explains to
people why a node has no cards. ``hostfit`` tells whether a node takes a pod, cards apart.
"""
