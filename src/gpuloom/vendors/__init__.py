"""Accelerator families as data: one TOML file each, and the few real differences as small pure functions.

A profile names resources, annotation keys, units, defaults and the ordered checks. Profiles are loaded into frozen
values and passed as arguments; there is no registry, and nothing happens at import.
"""
