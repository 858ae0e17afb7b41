"""Whether this replica may decide and write (binding 5, decision 014).

Leases come in: the one for which the kube-scheduler beside this process competes (``lease``), and those of other
schedulers of cards (``rivals``, which ``rivalwatch`` follows). Who is in ``charge`` goes out, and every decision and
every write asks for it.

``gate`` changes it. A new leader waits until the writes of the one before have come to their end, lists everything
anew, and then decides. When leadership is lost, no new write starts, waiting calls end, and what was assumed and not
sent is forgotten. ``rolelabel`` labels the scheduler pods for the Service of HAMi.
"""
