"""Score: in which order the cards of a node are tried, and which of the nodes that fit is best.

In: cards, a request, weights, what is used of nodes. Out: scores of nodes (``node_score``; the card table keeps them),
orders of cards (``card_order``), and a ``Ranking`` of nodes by a policy (``policies`` has the table of them): larger
is better, the first named among equals.
"""
