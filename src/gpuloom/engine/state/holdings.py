"""What a bound pod was given, and what cannot be read of it (trust T-11)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuloom.engine.request.demand import asks_vendor
from gpuloom.engine.state.allocations import read_shares_of
from gpuloom.model.share import ContainerShares, PodShares
from gpuloom.vendors.catalog import Catalog
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Pod
from gpuloom.wire.quantity import decode_strict_integer

_MOST_CHARS = 200
_SEPARATORS = re.compile("[:;]")

_NEGATIVE = "an amount is negative"
_NO_AMOUNTS = "a device has no amounts"


@dataclass(frozen=True, slots=True)
class Unread:
    """What a pod may hold of one vendor's cards beside what can be read.

    cause  why, in one clause
    cards  ids that it names, none where that cannot be told
    """

    cause: str
    cards: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a pod holds by vendor, as far as it can be read, and of which vendors more than that.

    counts  whether there is anything to count: nothing is where no list of the pod can be read
    """

    shares: PodShares
    unread: Mapping[str, Unread] = field(default_factory=dict)
    counts: bool = True


def read_holdings(pod: Pod, catalog: Catalog) -> Holdings:
    """Read what a bound pod's annotations say it was given, vendor by vendor.

    What cannot be read counts only for vendors of which the pod asks for cards: nobody gains anything by annotations.
    """
    shares: dict[str, tuple[ContainerShares, ...]] = {}
    unread: dict[str, Unread] = {}
    for profile in catalog.given_by(pod.annotations):
        key = profile.write.allocated
        text = pod.annotations[key]
        try:
            found = read_shares_of(pod, profile)
        except WireError as error:
            unread[profile.word] = _describe(key, str(error), text)
            continue
        if flaw := find_flaw(found, text):
            unread[profile.word] = _describe(key, flaw, text)
        if flaw != _NEGATIVE:
            shares[profile.word] = found
    counts = bool(shares) or not unread
    concerned = catalog.concerned(pod.all_containers)
    asked = {one.word: one.write.allocated for one in concerned if one.write.allocated and may_hold(pod, one)}
    for word, key in asked.items():
        if not any(shares.get(word, ())):
            unread.setdefault(word, Unread(f"its annotation {key} names no card"))
    return Holdings(shares, {word: one for word, one in unread.items() if word in asked}, counts)


def may_hold(pod: Pod, profile: Profile) -> bool:
    """Tell whether a bound pod may hold cards of a vendor: its kubelet gives them, whatever we make of the amounts."""
    counts = (container.limits.get(profile.resources.count, 0) for container in pod.all_containers)
    return any(decode_strict_integer(count) != 0 for count in counts) or asks_vendor(pod, profile)


def cards_named(text: str) -> frozenset[str]:
    """Return the ids that a device list names that cannot be read, none where that cannot be told."""
    names = {piece.partition(",")[0].strip() for piece in _SEPARATORS.split(text) if piece.strip()}
    return frozenset() if "" in names else frozenset(names)


def find_flaw(found: Iterable[ContainerShares], text: str) -> str:
    """Say why a device list that could be decoded does not tell all that its pod may hold, empty where it does."""
    if any(share.memory_mib < 0 or share.cores < 0 for given in found for share in given):
        return _NEGATIVE
    return _NO_AMOUNTS if _has_leftover(text) else ""


def _has_leftover(text: str) -> bool:
    """Tell whether a piece has no comma: a device list can hold nothing of the kind, and decoders skip it, as HAMi."""
    # No pattern: of a long id one would try every part.
    return any("," not in piece and piece.strip() for piece in text.replace(";", ":").split(":"))


def _describe(key: str, problem: str, text: str) -> Unread:
    cause = f"its annotation {key} cannot be read: {problem}"
    return Unread(cause[:_MOST_CHARS], cards_named(text))
