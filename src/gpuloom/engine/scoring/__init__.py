"""Score: in which order the cards of a node are tried, and which of the nodes that fit is best.

In: cards, a request, weights, nodes' scores. Out: orders of cards (``card_scores``) and a ``Ranking`` of nodes, larger
is better, the first named among equals. A node's own score is kept with the node (``state/node_score``).
"""
