"""The process on a GPU node: cards, the kubelet's device plugin API, Allocate and registration.

It does not know the scheduler package: the two exchange annotations, as in HAMi.
"""
