"""Moving pods so that another one fits: the cluster as the planner of moves sees it, and making the moves.

``cluster`` reads which pods may move, ``planning`` finds the moves for a pod, ``moving`` evicts one pod at a time with
the cards closed that become free. The command line uses them, and ``controller``, which makes moves by itself.
"""
