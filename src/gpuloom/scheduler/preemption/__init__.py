"""Making room: pods of lower priority are evicted so that a refused pod fits.

A refused Filter leaves an attempt (``attempts``). After a moment ``plan_finder`` looks for the node and the victims
that cost least, in time slices. The pod is nominated for that node (``nominating``): in memory, and by an annotation
from which a new leader learns of it (``writing``). ``evicting`` asks the victims to leave; when their cards are free,
the pod is woken as any other, and its next Filter gives it the node. ``flow`` runs all this and ends ``nominations``
whose time is over, ``refused`` remembers whom budgets protect, and ``counts`` says how often. Before kube-scheduler
evicts for CPU or memory it asks ``verb``, and ``promised`` waits for what it chooses.
"""
