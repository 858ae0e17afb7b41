"""How every process answers HTTP: listeners with limits, bodies, certificates, and whom the API server knows.

All listeners are made here and nowhere else, so that each of them has limits. This package does not know what they
answer.
"""
