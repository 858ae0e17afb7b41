"""Views of a scheduler's state: functions from a :class:`Source` to structs that are JSON. They read, and nothing else.

Long views are generators: whoever serves requests takes a few items at a time (:mod:`gpuloom.web.pacing`).
"""
