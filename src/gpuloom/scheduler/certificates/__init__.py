"""The server's certificate: from files that somebody else changes, or made and renewed here (scheduler 0.2, binding 6).

Files, or the Secret that replicas share, come in, and the time. The certificate that listeners present goes out, and
the authorities that the API server is to trust, into the webhook configuration (``cabundle``).

Either way a new pair becomes a context of its own first. Only a good one is used, for connections that begin from then
on; a bad one is reported and the old one stays. ``lifecycle`` is the pure part: it says when a certificate is made,
renewed, served and dropped.
"""
