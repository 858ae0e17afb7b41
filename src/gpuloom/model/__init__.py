"""The words of gpuloom: cards, requests, shares, reasons.

Values only. Nothing in here reads or writes a format, decides anything or knows a vendor; NumPy is allowed because the
card table is made of columns. Everything else may import this package; it imports nothing of gpuloom.
"""
