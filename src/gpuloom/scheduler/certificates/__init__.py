"""The server's certificate: from files that somebody else changes, or made and renewed here (scheduler 0.2, binding 6).

Either way a new pair becomes a context of its own first. Only a good one is used, for connections that begin from then
on; a bad one is reported and the old one stays.
"""
