"""How the value of every annotation is written and read, with values and texts that HAMi or a node plugin wrote.

Where gpuloom only reads, a node plugin's side is written here.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from unit.wire.strategies import allocations, card_uuids, containers, json_cards, naturals, uuids, words

from gpuloom.engine.decision.annotations import annotate
from gpuloom.engine.scoring.weights import read_weights
from gpuloom.model.card import Card
from gpuloom.model.request import Request
from gpuloom.model.share import Share
from gpuloom.vendors.catalog import load_shipped, make_catalog
from gpuloom.vendors.decided import Decided
from gpuloom.vendors.enflame import recall_slots
from gpuloom.vendors.hooks import read_cards
from gpuloom.wire.handshake import decode_handshake, encode_requesting
from gpuloom.wire.lock import NodeLock, decode_lock, encode_lock
from gpuloom.wire.mig import decode_mig_allocations, encode_mig_allocations
from gpuloom.wire.nomination import decode_nomination, encode_nomination
from gpuloom.wire.objects import Node, NodeStatus, ObjectMeta
from gpuloom.wire.pairscores import decode_pair_scores, encode_pair_scores
from gpuloom.wire.register import decode_register, encode_register
from gpuloom.wire.serves import Serves, decode_serves, encode_serves
from gpuloom.wire.shares import decode_shares, encode_shares
from gpuloom.wire.words import decode_bool, decode_list, encode_bool, encode_list

CATALOG = make_catalog(
    (profile for family in load_shipped() for profile in family.profiles), ("enable-ascend", "enable-iluvatar")
)


@dataclass(frozen=True)
class Codec:
    """How a value is written and read, values, and texts that HAMi or a node plugin wrote."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]
    values: st.SearchStrategy[Any]
    seen: tuple[str, ...]


def read_node(word: str, text: str) -> tuple[Card, ...]:
    profile = CATALOG[word]
    metadata = ObjectMeta(name="n", annotations={profile.cards.register: text})
    return read_cards(Node(metadata=metadata, status=NodeStatus()), profile).cards


def write_zoned(cards: list[dict[str, Any]]) -> str:
    return json.dumps(cards, separators=(",", ":"))


def read_zoned(text: str) -> list[dict[str, Any]]:
    return [
        {"uuid": one.id, "model": one.model, "totalDevCount": one.count, "totalCompute": one.cores,
         "totalVRam": one.memory_mib, "numa": one.numa, "healthy": one.healthy, "qosPolicy": one.policy,
         "linkZone": int(one.group or 0)}
        for one in read_node("Metax-SGPU", text)
    ]  # fmt: skip


def read_slices(text: str) -> dict[str, Any]:
    cards = read_node("Enflame", text)
    devices = [{"index": str(one.index), "minor": dict(one.custom)["minor"], "capacity": one.count} for one in cards]
    return {"devices": devices, "profiles": {f"1g.{cards[0].memory_mib // 1024}gb": "0"}}


def read_assigned(text: str) -> list[int]:
    share = ((Share("c", "Enflame", 1024, 10),), (Share("c", "Enflame", 1024, 10),))
    return [one.slots for (one,) in recall_slots(share, ("a", "b"), {"assigned-containers": text})]


def write_assigned(slots: list[int]) -> str:
    return json.dumps({name: {"allocated": False, "request": one} for name, one in zip("ab", slots, strict=True)})


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def read_losses(text: str) -> Any:
    metadata = ObjectMeta(name="n", annotations={"metax-tech.com/gpu.topology.losses": text})
    node = Node(metadata=metadata, status=NodeStatus(capacity={"metax-tech.com/gpu": "4"}))
    return read_cards(node, CATALOG["Metax-GPU"]).facts["metax-tech.com/gpu.topology.losses"]


def write_beside(word: str, key: str, slots: tuple[tuple[Share, ...], ...], index: int = 0) -> str:
    """What a decision writes under one key beside the device lists."""
    cards = {one.uuid: Card(one.uuid, index) for shares in slots for one in shares}
    requests = tuple(Request(word, len(shares), 0, 101, 0) if shares else None for shares in slots)
    decided = Decided("node1", slots, tuple(map(str, range(len(slots)))), requests, 0, cards, {})
    return annotate(decided, CATALOG[word])[key]


def write_units(parts: tuple[int, int, int]) -> str:
    index, cores, units = parts
    share = Share("MLU-0", "MLU", 256 * units, cores)
    return write_beside("MLU", "CAMBRICON_DSMLU_PROFILE", ((share,),), index)


def read_units(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("_"))


def read_zone_share(said: dict[str, Any]) -> Share:
    return Share(said["uuid"], "Metax-SGPU", said.get("vRam", 0), said.get("compute", 0))


def read_template_share(said: dict[str, Any]) -> Share:
    templates = {one.name: one.memory_mib for one in CATALOG["Ascend310P"].traits.templates}
    memory_mib = said["memory"]
    assert templates.get(said.get("temp", ""), CATALOG["Ascend310P"].traits.allocatable_mib) == memory_mib
    return Share(said["UUID"], "Ascend310P", memory_mib, said.get("core", 0))


def shared(word: str, memory: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[tuple[Share, ...], ...]]:
    """Shares of containers."""
    share = st.builds(Share, uuids, st.just(word), memory, st.integers(0, 100))
    return st.lists(st.lists(share, max_size=2).map(tuple), min_size=1, max_size=3).map(tuple)


moments = st.datetimes(min_value=datetime(1970, 1, 1)).map(lambda one: one.replace(microsecond=0, tzinfo=UTC))  # noqa: DTZ001 - Hypothesis wants it naive
names = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
zoned = st.fixed_dictionaries(
    {
        "uuid": card_uuids, "model": words, "totalDevCount": naturals, "totalCompute": naturals, "totalVRam": naturals,
        "numa": naturals, "healthy": st.booleans(), "qosPolicy": st.sampled_from(["", "fixed-share"]),
        "linkZone": naturals,
    }
)  # fmt: skip
slices = st.builds(
    lambda numbers, gb: {
        "devices": [{"index": str(at), "minor": str(one), "capacity": 6} for at, one in enumerate(numbers)],
        "profiles": {f"1g.{gb}gb": "0"},
    },
    st.lists(st.integers(0, 99), min_size=1, max_size=3),
    st.integers(1, 999),
)
weights = st.tuples(*[st.integers(0, 9)] * 3).filter(any)

PLAIN = {"word", "number"}
"""What stands as it is."""

CODECS: dict[str, Codec] = {
    "device list": Codec(
        encode_shares,
        lambda text: decode_shares(text)[:-1],
        containers,
        (
            "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae,NVIDIA,20000,30:;",
            ";uuid1,NVIDIA,1000,30:;;",
            "node1-cambricon-mlu-1,MLU,5120,10:;",
            "amd-1,AMD Instinct MI300X VF,16384,76:;",
            "node1-metax-3,Metax-GPU,65536,100:node1-metax-2,Metax-GPU,65536,100:;",
        ),
    ),
    "register": Codec(
        encode_register,
        decode_register,
        json_cards,
        (
            '[{"id":"GPU-0","count":10,"devmem":8192,"devcore":100,"type":"NVIDIA-A100","mode":"hami-core","health":true}]',
            '[{"id":"NPU-p1","index":1,"count":7,"devmem":1,"devcore":8,"health":true,"custominfo":{"NetworkID":1}}]',
        ),
    ),
    "zoned cards": Codec(
        write_zoned,
        read_zoned,
        st.lists(zoned, min_size=1, max_size=3, unique_by=lambda one: one["uuid"]),
        (
            write_zoned([{"uuid": "GPU-m1", "model": "MXC500", "totalDevCount": 16, "totalCompute": 100,
                          "totalVRam": 65536, "numa": 0, "healthy": True, "qosPolicy": "fixed-share", "linkZone": 1}]),
        ),
    ),
    "sliced cards": Codec(
        compact,
        read_slices,
        slices,
        ('{"devices":[{"index":"0","minor":"0","capacity":6}],"profiles":{"1g.8gb":"0"}}',),
    ),
    "handshake": Codec(
        lambda found: encode_requesting(found.since),
        lambda text: decode_handshake(text, UTC),
        moments.map(lambda one: decode_handshake(encode_requesting(one), UTC)),
        ("Requesting_2025-06-13 09:07:40",),
    ),
    "lock": Codec(
        encode_lock,
        decode_lock,
        st.builds(NodeLock, moments, names, names) | st.builds(NodeLock, moments),
        ("2025-10-20T03:07:02Z,jingyu-test,gputest-6c77bb77f8-gvtzc", "2026-07-03T15:35:10+08:00"),
    ),
    "nomination": Codec(
        lambda pair: encode_nomination(*pair),
        decode_nomination,
        st.tuples(names, moments),
        ("node-3;2026-11-23T10:00:00Z",),
    ),
    "serves": Codec(
        lambda said: encode_serves(said.vendors, said.plugin_uid),
        decode_serves,
        st.builds(Serves, st.sets(names, min_size=1, max_size=3).map(frozenset), names),
        ("NVIDIA;0c9b1a52-4e70-2174-49af-f07ebb94d1ae",),
    ),
    "pair scores": Codec(
        encode_pair_scores,
        decode_pair_scores,
        st.dictionaries(uuids, st.dictionaries(uuids, naturals, max_size=3), max_size=3),
        ('[{"uuid":"GPU-0","score":{"GPU-1":50,"GPU-2":20,"GPU-3":20}}]',),
    ),
    "instances": Codec(
        encode_mig_allocations,
        decode_mig_allocations,
        allocations,
        (
            '[{"containerIndex":0,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"1g.5gb","placement":{"start":6,"size":1}}]',
        ),
    ),
    "list": Codec(
        encode_list,
        decode_list,
        st.lists(words.map(str.strip).filter(bool), max_size=4).map(tuple),
        ("GPU-a,GPU-b", "A100", "1,0"),
    ),
    "boolean": Codec(encode_bool, decode_bool, st.booleans(), ("true", "false")),
    "losses": Codec(
        compact,
        read_losses,
        st.dictionaries(st.sampled_from("12348"), naturals),
        ('{"1":100,"2":200}',),
    ),
    "index, cores and units": Codec(
        write_units,
        read_units,
        st.tuples(naturals, st.integers(0, 100), st.integers(0, 100)),
        ("1_10_20",),
    ),
    "shares of zones": Codec(
        lambda slots: write_beside("Metax-SGPU", "metax-tech.com/gpu-devices-allocated", slots),
        lambda text: tuple(tuple(map(read_zone_share, each)) for each in json.loads(text)),
        shared("Metax-SGPU", naturals),
        ('[[{"uuid":"GPU-m2","compute":60,"vRam":4096}]]', '[[],[{"uuid":"GPU-m0"}]]'),
    ),
    "shares of templates": Codec(
        lambda slots: write_beside("Ascend310P", "huawei.com/Ascend310P", slots),
        lambda text: (tuple(map(read_template_share, json.loads(text))),),
        shared("Ascend310P", st.sampled_from([3072, 6144, 12288, 21527])).map(lambda slots: (sum(slots, ()),)),
        ('[{"UUID":"NPU-p1","temp":"vir01","memory":3072}]', '[{"UUID":"NPU-p1","memory":21527}]'),
    ),
    "slices": Codec(
        write_assigned, read_assigned, st.lists(st.integers(1, 9), min_size=2, max_size=2),
        ('{"a": {"allocated": false, "request": 3}, "b": {"allocated": false, "request": 1}}',),
    ),
    "weights": Codec(
        lambda found: f"slot={found.slot},core={found.core},memory={found.memory}",
        read_weights,
        weights.map(lambda found: read_weights("slot={},core={},memory={}".format(*found))),
        ("slot=1,core=1,memory=3",),
    ),
}  # fmt: skip
