"""Gang scheduling by kube-scheduler: what a group of pods holds that was not placed as a whole is given back.

================  ====================================================================
:mod:`.attempts`  what Filter and Bind have shown of each group
:mod:`.cleanup`   gives back what a group holds that failed
================  ====================================================================
"""
