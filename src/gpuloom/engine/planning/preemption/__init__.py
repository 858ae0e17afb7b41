"""Preemption: which pods of lower priority would have to leave a node so that a pod fits there.

In: the cluster's state, a pod that fits nowhere, and what is known of those that hold cards. Out: a ``PreemptionPlan``.
Everything is asked on forks, by the decision that places pods: nothing here knows a rule.
"""
