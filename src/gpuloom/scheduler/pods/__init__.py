"""From the pod watch to reservations: who is counted, and what ends a reservation (binding 2.2 and 4).

A pod as the watch shows it comes in. A reservation goes out to the engine's ledger: ``handler`` confirms an assumed one
when the pod is bound, adds one for a pod that was bound elsewhere, and forgets it when the pod is over.
``byannotation`` is the handler that believes annotations as HAMi does.

Pods whose cards are not known close cards: ``unreadable``, ``foreign``. ``cleanup`` ends reservations whose Bind never
comes, and locks that nobody waits for. ``waiting`` has the pods that fit nowhere and all that is remembered of them.
``requeue`` makes kube-scheduler try them again when capacity is freed; ``elsewhere`` points those of ``partlyoffered``
to a node. ``trim`` drops what nobody reads of bound pods, ``sizelimits`` of very large ones. ``watchdog`` counts pods
that should not be, ``pending`` finds those that wait.
"""
