"""The bytes of a watch, cut into lines and each line into its type and its object, which stays JSON here."""

from collections.abc import AsyncGenerator

import msgspec

from gpuloom.kube.connections import Content
from gpuloom.kube.errors import UnreachableError
from gpuloom.kube.transport import HttpRequest
from gpuloom.wire.depth import BAD_JSON, decode_by

_LINE_LIMIT_BYTES = 32 * 2**20


class WatchLine(msgspec.Struct, frozen=True):
    """One event: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; an unreadable line has an empty ``type``."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


async def read_lines(content: Content, request: HttpRequest) -> AsyncGenerator[WatchLine, None]:
    """Give line by line until the stream ends; a last line without its end was cut off and is dropped.

    Raises :class:`~gpuloom.kube.errors.UnreachableError` for a line that is larger than any object.
    """
    decoder = msgspec.json.Decoder(WatchLine)
    parts: list[bytes] = []
    size = 0
    async for chunk in content.iter_any():
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            line = b"".join((*parts, piece)) if parts else piece
            parts.clear()
            size = 0
            if line.strip():
                yield _decode(decoder, line)
        if rest:
            parts.append(rest)
            size += len(rest)
        if size > _LINE_LIMIT_BYTES:
            raise UnreachableError(request.verb, request.target, f"an event of more than {_LINE_LIMIT_BYTES} bytes")


def _decode(decoder: "msgspec.json.Decoder[WatchLine]", line: bytes) -> WatchLine:
    try:
        return decode_by(decoder, line)
    except BAD_JSON:
        return WatchLine(object=msgspec.Raw(line))
