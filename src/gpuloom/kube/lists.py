"""Lists of objects: which are asked for, and what an answer holds."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from gpuloom.kube.errors import UnreadableError
from gpuloom.kube.resources import Resource, T, keep_all
from gpuloom.kube.transport import HttpRequest
from gpuloom.wire.depth import BAD_JSON, decode, decode_by

_Item = TypeVar("_Item")


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

    ``unreadable`` holds objects that cannot be decoded, as JSON, and why.
    """

    items: list[T]
    version: str
    continue_token: str
    unreadable: tuple[tuple[msgspec.Raw, str], ...] = ()


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
    if resource.keep is keep_all:
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
    decoder = msgspec.json.Decoder(resource.type)
    items, unreadable = [], []
    for raw in listed.items or []:
        try:
            items.append(resource.keep(decode_by(decoder, raw)))
        except BAD_JSON as error:
            unreadable.append((raw, str(error)))
    return ListPage(items, listed.metadata.resource_version, listed.metadata.continue_token, tuple(unreadable))
