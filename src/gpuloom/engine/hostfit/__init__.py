"""What kube-scheduler's own filters say of nodes, cards apart: whether a node takes a pod, and how many such pods.

A pod becomes a ``HostDemand``, the bound pods of a node the sums of a ``HostUsage``; ``refuse_host`` asks the filters
in kube-scheduler's order and answers in its words. What depends on other pods' places, on volumes or on plugins is not
judged; the demand names it. Nothing here decides: kube-scheduler does.
"""
