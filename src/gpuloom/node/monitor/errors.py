"""What can go wrong with what the monitor reads; each message names the object and who is at fault."""

from gpuloom.node.errors import NodeError


class RegionError(NodeError):
    """A container's shared region cannot be used now; the next round looks again."""


class ListenError(NodeError):
    """The address for metrics cannot be used; the message names the flag."""
