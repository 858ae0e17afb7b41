"""The node's monitor: reports to Prometheus who uses how much of which card, and decides who must wait for whom.

It reads the files that HAMi-core shares with the node and writes two fields of them; it never allocates, and it uses
only the interfaces of the device plugin. The self-audit is in :mod:`gpuloom.node.audit`.
"""
