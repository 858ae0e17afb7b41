"""The scheduler's pages and their JSON API.

Nothing is served yet. Pages only render what the engine answers; no rule may be written here.
"""
