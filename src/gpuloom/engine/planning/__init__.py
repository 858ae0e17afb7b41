"""What-if questions about the cluster as it is: how many more pods of a kind fit, where the pods of a card would go.

``capacity``: a vendor scheduler and a demand in, a ``Capacity`` out. ``moving``: a pod scheduler, a card and its pods
in, a decision for each out. ``preemption``: whom to evict for a pod of higher priority, a ``PreemptionPlan`` out.
Nothing that is asked here changes the live state.
"""
