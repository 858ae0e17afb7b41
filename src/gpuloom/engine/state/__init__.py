"""What is known of the cluster: cards, who holds what, quotas.

In: what nodes register, and reservations (assume, confirm, forget: ``ledger``). Out: a ``CardTable`` a vendor, with a
row for every card and what is used of it, and the ``ClusterState`` that keeps ledger and tables together. A table is
changed in place, a node at a time; its change log says which nodes changed, so that whoever remembers something about
nodes looks at those only. A ``Snapshot`` keeps the table as it was, at the price of the nodes that change afterwards.
"""
