"""The node's monitor: who uses how much of which card, told to Prometheus, and who must wait for whom.

It reads the files that HAMi-core shares with the node and writes two fields of them; it never allocates, and of the
device plugin it uses only the ports. The self-audit is in :mod:`gpuloom.node.audit`.
"""
