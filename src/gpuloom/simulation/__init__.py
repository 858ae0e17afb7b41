"""The placement simulator: pods arrive at an empty cluster, a policy places them, and what is left idle is measured.

In: nodes, a list of pods, a seed, a mode and a policy. Out: a ``RunResult``. The policies of gpuloom are asked as the
scheduler asks them (``policies/engine_policy``); published policies stand beside them to compare with (``policies``).
Section numbers are those of docs/spec/placement-quality.md. The same input and seed give the same result; only how long
decisions took is the machine's. Files are read in ``reading``, nothing else here reads or writes any.
"""
