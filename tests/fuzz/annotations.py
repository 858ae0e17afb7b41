"""Texts of annotations and amounts, each read by its own decoder."""

import contextlib
from collections.abc import Callable
from datetime import UTC
from typing import Any

from fuzz.seeds import give_annotations, read_lines
from fuzz.target import Target

from gpuloom.engine.state.holdings import cards_named, find_flaw
from gpuloom.wire.errors import WireError
from gpuloom.wire.handshake import decode_handshake
from gpuloom.wire.lock import decode_lock
from gpuloom.wire.mig import decode_mig_allocations, decode_mig_instance
from gpuloom.wire.pairscores import decode_pair_scores
from gpuloom.wire.quantity import decode_strict_integer, round_quantity
from gpuloom.wire.register import decode_register
from gpuloom.wire.shares import decode_shares, has_shares, take_next
from gpuloom.wire.words import decode_bool, decode_int32, decode_list, decode_unix_time

_MIG = (
    b'[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-1","profile":"1g.5gb","placement":{"start":0,"size":1}}]',
    b'[{"gpuUUID":"G","profile":"p","placement":{"size":2},"migUUID":"M","gpuInstanceID":3,"computeInstanceID":0}]',
    b"GPU-1[1-0]",
)
_SHARES = (b"GPU-1,NVIDIA,8000,30:;", b"GPU-1,NVIDIA,1,1:GPU-2,NVIDIA,2,2:;;", b",,0,0:;", b"GPU-1[1-0],NVIDIA,4,5:;")
_TIMES = (b"2026-05-04T08:00:00Z,team,first", b"2026-05-04T08:00:00.123456789+05:30", b"Requesting_2026.05.04 08:00:00")
_PAIRS = (b'[{"uuid":"GPU-1","score":{"GPU-2":100,"GPU-3":-5}}]', b"null")
_AMOUNTS = (b"1", b"1.5Gi", b"500m", b"1e3", b"-7", b"12E", b"0.1", b"100Ti", b"9223372036854775807")


def _ask(*decoders: Callable[[str], Any]) -> Callable[[bytes], None]:
    """Ask each decoder about the text; WireError is the answer to bad ones."""

    def read(data: bytes) -> None:
        # An annotation is a JSON string of an API server, and so always Unicode.
        text = data.decode("utf-8", "replace")
        for decode in decoders:
            with contextlib.suppress(WireError):
                decode(text)

    return read


def _find_flaw(text: str) -> object:
    return find_flaw((), text)


def _decode_handshake(text: str) -> object:
    return decode_handshake(text, UTC)


def _read_amounts(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    amounts: list[str | int | float] = [text]
    for make in (int, float):
        with contextlib.suppress(ValueError):
            amounts.append(make(text))
    for amount in amounts:
        decode_strict_integer(amount)
        with contextlib.suppress(WireError):
            round_quantity(amount)


def _give_amounts() -> list[bytes]:
    limits = [
        amount
        for line in read_lines()
        for one in line.get("object", {}).get("spec", {}).get("containers") or ()
        for amount in (one.get("resources", {}).get("limits") or {}).values()
    ]
    return [*_AMOUNTS, *(str(amount).encode() for amount in limits)]


TARGETS = (
    Target(
        "shares",
        _ask(decode_shares, take_next, has_shares, cards_named, _find_flaw),
        "text",
        lambda: [*_SHARES, *give_annotations("devices")],
    ),
    Target("mig", _ask(decode_mig_allocations, decode_mig_instance), "json", lambda: _MIG),
    Target("register", _ask(decode_register), "json", lambda: give_annotations("register")),
    Target("pairscores", _ask(decode_pair_scores), "json", lambda: [*_PAIRS, *give_annotations("score")]),
    Target(
        "words",
        _ask(decode_lock, _decode_handshake, decode_unix_time, decode_bool, decode_int32, decode_list),
        "text",
        lambda: [*_TIMES, *give_annotations("mutex.lock"), *give_annotations("handshake")],
    ),
    Target("quantity", _read_amounts, "text", _give_amounts),
)
