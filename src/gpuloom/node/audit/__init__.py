"""The node's self-audit: whether what was promised, what the kubelet did and what runs on the cards agree.

It only reports (metric, event, log line) and changes nothing. The monitor runs it.
"""
