"""Commands that ask: who is on this card, why does this pod wait, would it fit.

They ask the running scheduler if there is a way to it, and otherwise work the same answers out of what the API server
or a recording says. Nothing here changes anything.
"""
