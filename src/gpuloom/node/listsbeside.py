"""What the device plugins of other vendors have to allocate for a pod of ours, where they share the node lock. Pure."""

from collections.abc import Set as AbstractSet
from functools import cache

from gpuloom.node.settings import NodeSettings
from gpuloom.vendors.catalog import Catalog, load_shipped
from gpuloom.wire import keys
from gpuloom.wire.objects import Pod
from gpuloom.wire.shares import may_have_shares


def has_lists_beside(pod: Pod, settings: NodeSettings) -> bool:
    """Whether other vendors' plugins have or had something to allocate for a pod."""
    return any(key in pod.annotations for key in lists_beside(settings.own_lists))


def is_served_beside(pod: Pod, settings: NodeSettings) -> bool:
    """Whether no other vendor's plugin has anything left to allocate for a pod; a list that cannot be read is left."""
    lists = lists_beside(settings.own_lists)
    return not any(may_have_shares(pod.annotations.get(key, "")) for key in lists)


def lists_beside(own: AbstractSet[str]) -> AbstractSet[str]:
    """Return the lists of the other vendors whose plugins share the common node lock; `own` are a user's own."""
    return (_lists_of_shipped() | own) - {keys.DEVICES_TO_ALLOCATE}


@cache
def _lists_of_shipped() -> frozenset[str]:
    profiles = (profile for family in load_shipped() for profile in family.profiles)
    return Catalog(tuple(profiles)).lists_under(keys.NODE_LOCK)
