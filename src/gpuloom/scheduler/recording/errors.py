"""What can be wrong with a recording."""


class LineError(ValueError):
    """A line cannot be used; the message says what is wrong with it."""
