"""How fast gpuloom schedules: generated clusters, and the cases that ``gpuloom bench`` runs over them.

Every case prints one JSON object. Single times drift on shared machines, so what counts are the ratios within one run.
"""
