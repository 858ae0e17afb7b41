"""Pods that kube-scheduler starts together or not at all: what a group holds that was not placed is given back.

================  ====================================================================
:mod:`.attempts`  what Filter and Bind have shown of each group
:mod:`.cleanup`   gives back what a group holds that failed
================  ====================================================================
"""
