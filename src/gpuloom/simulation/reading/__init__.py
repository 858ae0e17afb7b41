"""Traces as files: openb's CSV, or YAML lists with the same words; plain or compressed with gzip or xz.

In: the name of a file. Out: nodes or pods (``traces``), from rows of text with their lines (``rows``). What is wrong is
a ``SimulationError`` that names the file, the line and what is expected there.
"""
