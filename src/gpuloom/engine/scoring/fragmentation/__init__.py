"""``fragmentation``: each pod goes where it takes least of what cards are worth to the pods to come.

The cost of a placement, in thousandths of cards, sums up what it changes on its node and what it takes from others:

- what a typical pod cannot use of what is free (``useless_share.py``), and what will be wasted of a card's rest, by the
  dual prices of a cutting-stock program over the shares that pods ask for (``card_value.py``, ``cutting_stock.py``);
- free cards that the node's free CPU cannot feed, now and once pods without cards have taken theirs
  (``measured_cost.py``);
- the scarcity of the card model (``market.py``), and nodes kept for pods of many whole cards
  (``large_pod_nodes.py``).

What pods are to be expected is a ``Workload``: shapes of pods, counted. Costs are rounded to steps of 20, so that equal
choices pile up on the same nodes. The chooser (``chooser.py``) remembers costs by shape until a node changes. It never
holds a pod back. Everything follows from its arguments: equal nodes, pods and workload give equal choices.
"""
