"""The decision: which node and which cards a pod gets. Cards are rows, rules are columns, a decision is a query.

Pure: no clock, no randomness, no environment, no log, no network; time and settings come in as arguments. The live
scheduler, replay, explanation and every what-if run exactly this code. The folders are the steps of kube-scheduler,
and each imports only those before it:

request      from a pod to what it asks for
hostfit      what kube-scheduler's own filters say of nodes, cards apart; no step of a decision reads it
scoring      which card of a node is tried first, which node is better
state        what is known: cards, reservations, quotas
filtering    which cards and nodes can serve, and why the others cannot
placement    which cards of a node the containers of a pod get
decision     one pod's attempt: filter, score, place, over one vendor or several
explanation  why a pod goes where it goes, or nowhere
planning     what-if questions: how many more such pods fit
"""
