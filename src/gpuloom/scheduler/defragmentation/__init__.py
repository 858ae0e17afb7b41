"""Moving pods so that another one fits: the cluster as the planner of moves sees it, and making the moves.

``cluster`` reads which pods may move, ``moving`` evicts them one at a time with the cards closed that become free. The
command line uses both.
"""
