"""The extender's filter verb: on which node a pod runs, and with which cards (scheduler 4, binding 1).

A pod and the names of candidate nodes come in. One node goes out, or a refusal for each node. A pod that fits holds its
cards from then on: the engine's ledger has a reservation that is *assumed*, as in the cache of kube-scheduler.

A decision (``decide``) never awaits, so two calls never see the same free card. It writes nothing to the API server:
the Binding carries it. With ``filter-write=inline`` the ``verb`` writes the ``patch`` before it answers. What the
answer does not need, such as the events, is ``deferred``. ``history`` remembers the last decisions for people.
"""
