"""How every process answers HTTP: listeners with limits, bodies, certificates, and whom the API server knows.

All listeners are made here and in no other place, so that none of them lacks a limit. What is answered is not known
here.
"""
