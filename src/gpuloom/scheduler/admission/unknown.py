"""Resources that look like a vendor's and that nobody has: most are mistyped.

Whoever creates pods chooses the names, before the API server has checked them: everything is bounded (trust T-02).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from gpuloom.vendors.profile import Profile
from gpuloom.wire.objects import Pod

LONGEST_NAME = 128
_LONGEST_CONTAINER = 63


@dataclass(frozen=True, slots=True)
class UnknownResource:
    """A resource that a container asks for and nobody has; ``meant`` is the known one that is like it, if any is."""

    container: str
    name: str
    meant: str

    @property
    def text(self) -> str:
        """Say what that leads to, and what may have been meant."""
        advice = f"; did you mean {self.meant}?" if self.meant else ""
        return f"no node has {self.name}, and gpuloom knows no such resource, so the pod will stay pending{advice}"

    @property
    def full_text(self) -> str:
        """Say of which container that is, too."""
        return f"container {self.container}: {self.text}"


class KnownResources:
    """The resources of all vendors."""

    def __init__(self, catalog: Iterable[Profile]) -> None:
        self.names = frozenset(name for profile in catalog for name in profile.resources.all)
        self._prefixes = frozenset(name.partition("/")[0] for name in self.names)

    def may_mean(self, name: str) -> bool:
        """Tell whether a name stands under a vendor's prefix and is none of its resources: one of them may be meant."""
        return name not in self.names and name.partition("/")[0] in self._prefixes


def find_unknown(pod: Pod, catalog: Iterable[Profile], is_offered: Callable[[str], bool]) -> Iterator[UnknownResource]:
    """Find what a pod asks for under a vendor's prefix, and neither a vendor nor a node knows."""
    known = KnownResources(catalog)
    offered: set[str] = set()
    for container in pod.all_containers:
        for name in {**container.limits, **container.requests}:
            if name in offered or not known.may_mean(name):
                continue
            if is_offered(name):
                offered.add(name)
                continue
            cut = name[:LONGEST_NAME]
            yield UnknownResource(container.name[:_LONGEST_CONTAINER], cut, _find_meant(cut, known.names))


def _find_meant(name: str, known: Iterable[str]) -> str:
    prefix, _, own = name.partition("/")
    candidates = {one.partition("/")[2]: one for one in known if one.partition("/")[0] == prefix}
    own = own.lower()
    # What somebody types for gpumem begins as that does, however it goes on.
    close = get_close_matches(own, candidates, 1, 0.6) or [one for one in candidates if own.startswith(one)]
    return candidates[max(close, key=len)] if close else ""
