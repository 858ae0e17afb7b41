"""One pod's attempt: filter, score and place, over the cards of one vendor or of several.

In: demands and the names of candidate nodes. Out: a ``Decision``: node, shares, what else is written, refusals.

How one decision goes: ``PodScheduler`` asks the ``VendorScheduler`` of each vendor that the pod asks for; it makes
a ``SchedulingAttempt``. The attempt takes the filter results of the pod's equivalence class, ranks the candidates, and
places the pod on the best. Where single cards do not decide, it places the pod on one node after another. Of several
vendors each says which nodes take the pod (``Assessment``), and their columns are laid over each other
(``vendor_intersection``). Then the decision becomes annotations and event messages, in HAMi's words.
``taking_over`` tells whether a pod gets what another scheduler chose for it.

What the answer does not need is left open: ``Decision.complete`` finds it out afterwards, from a snapshot. An attempt
that would take longer than others should wait raises ``UnsettledError``, which carries the steps that are left.
"""
