"""The executable specification: what the scheduler must decide, transcribed plainly and slowly.

Every module follows one part of the scheduler specification, in its order and with its letters, for the vendor NVIDIA;
:mod:`oracle.vendors` does the same for all other vendors, beside each other and together with it.
It knows wire formats from ``gpuloom.wire`` and nothing of the engine, so that the two can be held against each other:
no arrays, no caches, no shortcuts. Whoever wants to know why gpuloom answers what it answers reads this.
"""
