"""The one exception of this package."""


class WireError(ValueError):
    """Something on the wire cannot be read; the message is HAMi's where HAMi has one, and names the offending text."""
