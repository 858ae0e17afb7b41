"""Generated nodes: small, often alike, with cards of every kind (wire protocol 2)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from oracle.choosers import Chooser, happens

JsonObject = dict[str, Any]

MODELS: Final = (
    ("NVIDIA A100-SXM4-40GB", 40960),
    ("NVIDIA-Tesla T4", 15360),
    ("NVIDIA-NVIDIA A40", 46068),
    ("NVIDIA A10", 1000),
)
PROFILES: Final[tuple[JsonObject, ...]] = (
    {"name": "3g.20gb", "memoryMB": 20480, "core": 42, "sliceCount": 3, "placements": ((0, 4), (4, 4))},
    {"name": "1g.5gb", "memoryMB": 5120, "core": 14, "sliceCount": 1, "placements": tuple((at, 1) for at in range(7))},
    {"name": "2g.10gb", "memoryMB": 10240, "core": 28, "sliceCount": 2, "placements": ((0, 2), (2, 2), (4, 2))},
    {"name": "1g.10gb", "memoryMB": 10240, "core": 14, "sliceCount": 1, "placements": ((0, 2), (2, 2), (4, 2), (6, 2))},
    {"name": "7g.40gb", "memoryMB": 40960, "core": 100, "sliceCount": 7, "placements": ((0, 8),)},
)
GEOMETRIES: Final[tuple[JsonObject, ...]] = (
    {
        "models": ["A100-SXM4-40GB"],
        "allowedGeometries": [
            [{"name": "1g.5gb", "core": 14, "memory": 5120, "count": 7}],
            [
                {"name": "1g.5gb", "core": 14, "memory": 5120, "count": 1},
                {"name": "2g.10gb", "core": 28, "memory": 10240, "count": 3},
            ],
            [{"name": "3g.20gb", "core": 42, "memory": 20480, "count": 2}],
            [{"name": "7g.40gb", "core": 100, "memory": 40960, "count": 1}],
        ],
    },
    {
        "models": ["T4", "A40"],
        "allowedGeometries": [
            [{"name": "2g.6gb", "memory": 6144, "count": 1}, {"name": "1g.3gb", "memory": 3072, "count": 2}],
            [{"name": "4g.15gb", "memory": 15360, "count": 1}],
        ],
    },
)
ODDITIES: Final[tuple[JsonObject, ...]] = (
    {"health": False},
    {"numa": 1},
    {"index": 0},
    {"count": 1},
    {"devmem": 20480},
    {"type": "NVIDIA A10G"},
    {"devcore": 50},
    {"devcore": 0},
    {"numa": -1},
    {"count": 0},
    {"devmem": 0},
)


@dataclass(frozen=True, slots=True)
class SomeCard:
    """What the pods of a case need to know of a card."""

    id: str
    memory_mib: int
    mode: str
    profiles: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class SomeNode:
    """A generated node object and its cards."""

    name: str
    raw: JsonObject
    cards: tuple[SomeCard, ...] = field(default=())


def some_node(chooser: Chooser, name: str) -> SomeNode:
    """Generate a node with up to eight cards, most of them alike, so that ties are common."""
    cards = _some_cards(chooser, name, chooser.choose((2, 1, 3, 4, 2, 8, 0, 5, 2, 4, 6, 1)))
    annotations: dict[str, str] = {}
    if cards or happens(chooser, 50):
        annotations["hami.io/node-nvidia-register"] = _encode(cards, chooser)
    if cards and happens(chooser, 40):
        annotations["hami.io/node-nvidia-score"] = json.dumps(_some_pair_scores(chooser, cards))
    if cards and happens(chooser, 15):
        cordoned = [card["id"] for card in cards if happens(chooser, 50)]
        annotations["hami.io/device-cordon"] = " , ".join([*cordoned, ""])
    raw = {
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "status": {"allocatable": {"nvidia.com/gpu": str(sum(card["count"] for card in cards))}},
    }
    known = tuple(
        SomeCard(card["id"], card["devmem"], card["mode"], tuple(card.get("migProfiles") or ())) for card in cards
    )
    return SomeNode(name, raw, known)


def _some_cards(chooser: Chooser, node: str, number: int) -> list[JsonObject]:
    model, memory_mib = chooser.choose(MODELS)
    kind = chooser.choose(("shared", "shared", "shared", "profiles", "geometries", "mixed"))
    common = {
        "count": chooser.choose((10, 2, 1, 4)),
        "devmem": memory_mib,
        "devcore": chooser.choose((100, 100, 100, 50, 200)),
        "type": model,
    }
    numa_size = chooser.choose((8, 2, 1, 3))
    cards = [
        common
        | {"id": f"GPU-{node}-{at}", "index": at, "numa": at // numa_size, "health": True}
        | _some_mode(chooser, kind)
        for at in range(number)
    ]
    return [card | (_some_oddity(chooser) if happens(chooser, 20) else {}) for card in cards]


def _some_mode(chooser: Chooser, kind: str) -> JsonObject:
    if kind == "mixed":
        kind = chooser.choose(("shared", "profiles", "geometries"))
    if kind == "profiles":
        profiles = [_encode_profile(profile) for profile in PROFILES if happens(chooser, 70)]
        return {"mode": "mig", "migProfiles": profiles or [_encode_profile(PROFILES[1])], "count": 7}
    if kind == "geometries":
        return {"mode": "mig", "count": 7}
    return {"mode": chooser.choose(("hami-core", "hami-core", "hami-core", "mps", ""))}


def _some_oddity(chooser: Chooser) -> JsonObject:
    return chooser.choose(ODDITIES)


def _encode_profile(profile: Mapping[str, Any]) -> JsonObject:
    return {**profile, "placements": [{"start": start, "size": size} for start, size in profile["placements"]]}


def _encode(cards: Sequence[JsonObject], chooser: Chooser) -> str:
    """Write the register annotation, in an older form where the cards allow it."""
    form = chooser.choose(("json", "json", "csv9", "csv7"))
    if form == "json" or not cards or any("migProfiles" in card for card in cards):
        return json.dumps([{key: value for key, value in card.items() if value} for card in cards])
    fields = ("id", "count", "devmem", "devcore", "type", "numa", "health", "index", "mode")[: int(form[3:])]
    return "".join(",".join(_text(card[field]) for field in fields) + ":" for card in cards)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _some_pair_scores(chooser: Chooser, cards: Sequence[JsonObject]) -> list[JsonObject]:
    ids = [card["id"] for card in cards]
    scores = (0, 10, 50, 100, -5)
    return [{"uuid": one, "score": {other: chooser.choose(scores) for other in ids if other != one}} for one in ids]
