"""Lists of objects: which are asked for, and what an answer holds."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from gpuloom.kube.errors import UnreadableError
from gpuloom.kube.resources import Resource, T, keep_all
from gpuloom.kube.transport import HttpRequest
from gpuloom.wire.depth import BAD_JSON, decode, decode_by

_Item = TypeVar("_Item")

WHOLE_BYTES = 8 * 2**20
"""Up to here a page is decoded at once. Objects may take more than ten times as much memory as their JSON."""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects of a kind: of one namespace (empty: of all), with these labels and fields."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""

    def query(self) -> dict[str, str]:
        """Return the selectors as query parameters."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {key: value for key, value in selectors.items() if value}


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """Part of a list: its objects, the list's version, and the token for the rest (empty: there is none).

    ``items`` can be read once: those of a long page are decoded one by one. ``unreadable`` holds objects that cannot be
    decoded, as JSON, and why; all of them when the items have been read.
    """

    items: Iterable[T]
    version: str
    continue_token: str
    unreadable: Sequence[tuple[msgspec.Raw, str]] = ()


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, Generic[_Item]):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[_Item] | None = None


def decode_page(resource: Resource[T], body: bytes, request: HttpRequest) -> ListPage[T]:
    """Decode an answer to a list; objects that cannot be read stand apart.

    Raises :class:`~gpuloom.kube.errors.UnreadableError` when it is no list.
    """
    if resource.keep is keep_all and len(body) <= WHOLE_BYTES:
        with suppress(*BAD_JSON):
            listed = decode(body, _List[resource.type])  # type: ignore[name-defined]
            return ListPage(listed.items or [], listed.metadata.resource_version, listed.metadata.continue_token)
    return _decode_one_by_one(resource, body, request)


def _decode_one_by_one(resource: Resource[T], body: bytes, request: HttpRequest) -> ListPage[T]:
    """Decode a page object by object: one that cannot be read must not take the others with it."""
    try:
        listed = decode(body, _List[msgspec.Raw])
    except BAD_JSON as error:
        raise UnreadableError(request.verb, request.target, 0, f"the list cannot be read: {error}") from error
    unreadable: list[tuple[msgspec.Raw, str]] = []
    items = _decode_each(resource, listed.items or [], unreadable)
    return ListPage(items, listed.metadata.resource_version, listed.metadata.continue_token, unreadable)


def _decode_each(
    resource: Resource[T], items: Iterable[msgspec.Raw], unreadable: list[tuple[msgspec.Raw, str]]
) -> Iterator[T]:
    decoder = msgspec.json.Decoder(resource.type)
    for raw in items:
        try:
            found = resource.keep(decode_by(decoder, raw))
        except BAD_JSON as error:
            unreadable.append((raw, str(error)))
        else:
            yield found
