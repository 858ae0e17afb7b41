"""What makes an installation fail, found by looking: checks of one machine and of a cluster.

Facts are collected at the edge (``collection``), and each check is a small pure judgement over them. Nothing here
changes a machine or a cluster.
"""
