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
MOST_OTHERS = 16
"""So many names of other prefixes are compared: a pod may have tens of thousands, and each takes some 50 us."""
_LIKE_OWN = 0.6
_LIKE_PREFIX = 0.85
"""Nearly all letters: a prefix may well be that of somebody else's plugin."""


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
        self._own_names: dict[str, set[str]] = {}
        for prefix, own in map(_split, self.names):
            self._own_names.setdefault(prefix, set()).add(own)

    def find_doubtful(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Give container and name of what a pod asks for that is no vendor's resource, and may be meant for one.

        It stands under a vendor's prefix, or it is like a resource and its prefix is like that one's.
        """
        others = 0
        for container in pod.all_containers:
            for name in {**container.limits, **container.requests}:
                prefix, own = _split(name)
                if name in self.names or not own:
                    continue
                if prefix not in self._own_names:
                    others += 1
                    if others > MOST_OTHERS or not self.find_meant(name):
                        continue
                yield container.name, name

    def find_meant(self, name: str) -> str:
        """Return the resource that a name is like, empty without one."""
        prefix, own = _split(name[:LONGEST_NAME])
        near = [prefix] if prefix in self._own_names else get_close_matches(prefix, self._own_names, 1, _LIKE_PREFIX)
        if not near:
            return ""
        candidates, own = self._own_names[near[0]], own.lower()
        # What somebody types for gpumem begins as that does, however it goes on.
        close = get_close_matches(own, candidates, 1, _LIKE_OWN) or [one for one in candidates if own.startswith(one)]
        return f"{near[0]}/{max(close, key=len)}" if close else ""


def find_unknown(pod: Pod, catalog: Iterable[Profile], is_offered: Callable[[str], bool]) -> Iterator[UnknownResource]:
    """Find what a pod asks for that may mean a vendor's resource, and neither a vendor nor a node knows."""
    known = KnownResources(catalog)
    offered: set[str] = set()
    for container, name in known.find_doubtful(pod):
        if name in offered or is_offered(name):
            offered.add(name)
            continue
        cut = name[:LONGEST_NAME]
        yield UnknownResource(container[:_LONGEST_CONTAINER], cut, known.find_meant(cut))


def _split(name: str) -> tuple[str, str]:
    prefix, _, own = name.partition("/")
    return prefix, own
