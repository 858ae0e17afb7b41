"""A page as a value: named regions of HTML, so that two states of it can be compared. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Listing:
    """A region of many items that change one by one; the HTML of an item is an element with its name as id.

    ``fingerprint`` differs where anything else does, for as long as the process lives.
    """

    head: Markup
    items: Mapping[str, Markup]
    tail: Markup
    fingerprint: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", hash((self.head, tuple(self.items.items()), self.tail)))

    def draw(self) -> Markup:
        """Return the whole."""
        return _join("", (self.head, *self.items.values(), self.tail))


Region = Markup | Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardPage:
    """What somebody sees; the HTML of a region is an element with its name as id.

    ``here`` is the entry of the navigation that the page belongs to. ``is_live``: whether it can change. ``state`` is a
    short name of what is shown, good for as long as the process lives.
    """

    title: str
    here: str
    regions: Mapping[str, Region] = field(default_factory=dict)
    is_live: bool = True
    state: str = field(init=False)

    def __post_init__(self) -> None:
        facts = tuple((name, _fingerprint(region)) for name, region in self.regions.items())
        object.__setattr__(self, "state", f"{hash(facts) & 0xFFFF_FFFF_FFFF:x}")

    def draw(self) -> Markup:
        """Return all regions."""
        return _join("\n", map(_draw, self.regions.values()))


def find_changes(before: DashboardPage | None, after: DashboardPage) -> Iterator[tuple[str, Markup]]:
    """Give the elements to replace, by id: whole regions, or items of a listing that stayed the same otherwise."""
    for name, region in after.regions.items():
        known = before.regions.get(name) if before else None
        if isinstance(region, Listing) and isinstance(known, Listing) and _has_same_frame(known, region):
            yield from ((item, html) for item, html in region.items.items() if known.items[item] != html)
        elif region != known:
            yield name, _draw(region)


def _has_same_frame(one: Listing, other: Listing) -> bool:
    return (one.head, one.tail) == (other.head, other.tail) and list(one.items) == list(other.items)


def _draw(region: Region) -> Markup:
    return region.draw() if isinstance(region, Listing) else region


def _fingerprint(region: Region) -> int:
    return region.fingerprint if isinstance(region, Listing) else hash(region)


def _join(between: str, parts: Iterable[Markup]) -> Markup:
    """Join what was escaped when it was drawn; Markup's own join looks at every part again."""
    return Markup(between.join(parts))  # noqa: S704 - parts are Markup
