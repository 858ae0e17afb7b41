"""Lists and watches of pods, nodes and quotas, as the informers of client-go have them.

Events of reflectors come in. Calls of the handlers go out, one object at a time: ``pods/handler.py``,
``nodes/handler.py``, the node locks, and ``quotas`` here. What they keep of the objects is ``shown``. The gate of
leadership is told when all first lists are complete.

An object on which a handler fails is skipped and reported (``skip``). If it ended the process instead, the restarted
process would fail on it again and schedule nothing.
"""
