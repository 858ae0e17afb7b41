"""Filter: which cards and nodes can serve a request, and why the others cannot.

In: the card table and a demand. Out: for every card the first rule that rejects it (``rules``), for every node how
many cards are left and its rank (``filter_results``), and refusals in HAMi's words.

What is remembered, for whom, until when, and why that is safe:

- The results of a request depend on its ``EquivalenceClass`` and on the cards, on nothing else. So they are kept by
  class (``filter_cache``), the least recently asked class goes first.
- Every rule says what its answer follows from (``DependsOn``). What the card alone decides is kept once for all classes
  (``card_only_results``). What follows from request and registration is kept until any node registers anew. What
  follows from usage is asked again for the nodes that the table's change log names since the last time.
- The change log drops old entries; a reader that is behind it asks about all cards again. So nothing stale is ever
  read: what is remembered either saw every change or is thrown away.
- Requests that name cards, and those for which a quota is tight, are hardly ever repeated; they are not remembered.
- ``fragmentation`` keeps what all classes ask of a node (``fragmentation_view``), and by class what a pod costs on
  nodes in the same state (``fragmentation_ranks``); of a node that changed, only the cards that are others are read.
- Why no node served is kept for the last few classes (``refusal_cache``), and told anew of nodes that changed.

Vendors whose cards cannot be chosen one by one have hooks, which see the cards of many nodes as a ``CardMatrix``
(``hook_calls``, ``hooked_results``); what they answer is kept for nodes in the same state.
"""
