"""What-if questions about the cluster as it is: how many more pods of a kind fit.

In: a vendor scheduler and a demand. Out: a ``Capacity``. Nothing that is asked here changes the live state.
"""
