"""Chaos: pods come and go over many nodes while everything that may fail fails, and promises are checked meanwhile.

`engine` runs a `plan`: `load` lets pods come and go, `faults` does the damage, `calm` knows when none is done,
`promises` holds what was promised against the API server's own objects, `footprint` watches memory and descriptors.
"""
