"""How well the cards of a node are linked, pair by pair (wire protocol 2.2)."""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from gpuloom.wire.errors import WireError
from gpuloom.wire.gojson import decode_list_of, encode_json

PairScores = Mapping[str, Mapping[str, int]]
"""UUID of a card to UUID of a peer to score; larger is better, a missing score is 0."""

_Score = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Entry(msgspec.Struct, frozen=True):
    uuid: str = ""
    score: dict[str, _Score] = {}


def decode_pair_scores(text: str) -> PairScores:
    """Read a pair score annotation; the last of two entries for one card counts.

    Raises WireError when it is not JSON of this shape: then nothing of the node's cards may be used.
    """
    try:
        entries = decode_list_of(text, _Entry)
    except WireError as error:
        raise WireError(f"pair score annotation is not a list of scores: {error}") from error
    return {entry.uuid: entry.score for entry in entries}


def encode_pair_scores(scores: PairScores) -> str:
    """Write pair scores: cards in the order given, peers in ascending order.

    Raises WireError for text that is not Unicode.
    """
    return encode_json([{"uuid": uuid, "score": dict(sorted(peers.items()))} for uuid, peers in scores.items()])
