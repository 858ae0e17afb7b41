"""The mutating webhook: what is changed on a pod before it is stored (scheduler 2).

A review of a new pod and what the quotas of its namespace still allow come in. A verdict goes out: allowed, allowed
with a JSON Patch, or denied with the reason. Nothing here reads or writes anything else: ``http/webhook.py`` reads the
body of the call.

``review`` holds the decision table, ``patch`` builds the JSON Patch, ``quota`` compares with the quotas.
"""
