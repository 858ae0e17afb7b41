"""Defragmentation: which pods would have to move so that a pod fits, where few of them are in the way.

In: the cluster's state, a pod that fits nowhere, and what the pods that hold cards ask for. Out: a
``DefragmentationPlan``.
Everything is asked on a fork, by the decision that places pods: nothing here knows a rule.
"""
