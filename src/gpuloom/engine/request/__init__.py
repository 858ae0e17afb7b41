"""From a pod to its demand: what each container asks for, which cards will do, and by which policies to choose.

In: a pod and the vendors' profiles. Out: a ``Demand`` a vendor (``read_demands``), a value that knows nothing of any
node. Amounts and annotations are read here, each once; what cannot be read raises or counts as HAMi has it.
"""
