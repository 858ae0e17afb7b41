"""Bytes to values and back: HAMi's annotations and the parts of Kubernetes' JSON that gpuloom reads.

Every encoder stands beside its decoder. Broken input raises :class:`~gpuloom.wire.errors.WireError` and nothing else.
No clock, no network, no log: callers pass the time and handle the error.
"""
