"""``gpuloom simulate``: from files and flags to runs, and from results to a table, JSON, CSV and a picture.

What is simulated, and how, is in the room ``gpuloom.simulation``; here are only flags, files and texts.
"""
