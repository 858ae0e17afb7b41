"""What the worked examples read on the way: the cards of the node, and the request after the webhook (vendors 4)."""

from typing import Any

import msgspec
import pytest
from unit.vendors.test_examples import EXAMPLES, Example, play

from gpuloom.model.card import Card
from gpuloom.model.request import Request
from gpuloom.scheduler.recording.flags import read_settings
from gpuloom.vendors.hooks import read_cards, read_request
from gpuloom.vendors.profile import Profile
from gpuloom.wire.admission import decode_pod
from gpuloom.wire.objects import Node

CARDS: dict[str, tuple[list[str], tuple[int, int, int]]] = {
    "NVIDIA": (
        ["GPU-03f69c50-207a-2038-9b45-23cac89cb67d", "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae"],
        (10, 46068, 100),
    ),
    "MLU": ([f"node1-cambricon-mlu-{at}" for at in range(2)], (100, 23040, 100)),
    "DCU": (["DCU-TPXS320016070601", "DCU-TPXS320010040501"], (4, 65520, 100)),
    "Iluvatar chip": (["GPU-a1", "GPU-a2"], (100, 32768, 100)),
    "Iluvatar": ([f"node1-iluvatar-{at}" for at in range(2)], (100, 32768, 100)),
    "Mthreads": ([f"node1-mthreads-{at}" for at in range(2)], (100, 49152, 16)),
    "Metax-GPU": ([f"node1-metax-{at}" for at in range(4)], (1, 65536, 100)),
    "Metax-SGPU": (["GPU-m0", "GPU-m1", "GPU-m2"], (16, 65536, 100)),
    "Ascend310P": (["NPU-p0", "NPU-p1"], (7, 21527, 8)),
    "Enflame DRS": ([f"node1-enflame-drs-{at}" for at in range(2)], (6, 48 * 1024, 100)),
    "GCU": ([f"node1-GCU-{at}" for at in range(4)], (1, 100, 100)),
    "kunlun": ([f"node1-kunlun-{at}" for at in range(8)], (100, 98304, 100)),
    "XPU": ([f"xpu-{at}" for at in range(8)], (4, 98304, 100)),
    "AWSNeuron": ([f"node1-AWSNeuron-{at}" for at in range(4)], (2, 0, 0b11)),
    "AMD": (["amd-0", "amd-1"], (8, 196608, 304)),
    "Vastai": ([f"va-{at}" for at in range(4)], (1, 1000, 100)),
    "Biren": (["br-0", "br-1"], (1, 65536, 100)),
}
"""Ids, and how many may share each card, its memory in MiB, its cores."""

WHOLE = "of all memory"
REQUESTS: dict[str, tuple[int, int | str, int]] = {
    "NVIDIA": (1, 20000, 30),
    "MLU": (1, 5120, 10),
    "DCU": (1, 2000, 60),
    "Iluvatar chip": (1, 16384, 50),
    "Iluvatar": (1, 16384, 50),
    "Mthreads": (1, 16384, 8),
    "Metax-GPU": (2, WHOLE, 100),
    "Metax-GPU, spread": (2, WHOLE, 100),
    "Metax-SGPU": (1, 4096, 60),
    "Metax-SGPU, whole cards": (2, WHOLE, 100),
    "Ascend310P": (1, 3072, 0),
    "GCU": (2, 100, 100),
    "kunlun": (1, WHOLE, 0),
    "XPU": (1, 24576, 25),
    "AMD": (1, 16384, 25),
    "Vastai": (2, WHOLE, 0),
    "Biren": (1, WHOLE, 0),
}
"""Cards, memory in MiB of each, cores. Enflame and AWS Neuron ask in slices and devices of their own."""


async def read(example: Example) -> tuple[Profile, list[Card], Request]:
    admitted, _ = await play(example)
    pod = decode_pod(msgspec.json.encode(admitted))
    (container,) = pod.containers
    metadata = {"name": "node1", **example.node.get("metadata", {})}
    described: dict[str, Any] = {"metadata": metadata, "status": example.node.get("status", {})}
    node = msgspec.convert(described, Node)
    for profile in read_settings(example.flags, example.config).catalog.concerned([container]):
        request = read_request(container, pod.annotations, profile)
        if request is not None:
            return profile, list(read_cards(node, profile).cards), request
    raise AssertionError("no family is asked")


@pytest.mark.parametrize("name", CARDS)
async def test_the_nodes_cards_are_read_as_specified(name: str) -> None:
    _, cards, _ = await read(EXAMPLES[name])
    ids, numbers = CARDS[name]
    assert [card.id for card in cards] == ids
    assert {(card.count, card.memory_mib, card.cores) for card in cards} == {numbers}


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_request_is_read_as_specified(name: str) -> None:
    profile, _, request = await read(EXAMPLES[name])
    memory = WHOLE if request.memory_percentage == 100 else request.memory_mib
    assert (request.vendor, request.cards, memory, request.cores) == (profile.word, *REQUESTS[name])


async def test_half_of_the_cards_of_kunlun_are_on_the_second_numa_node() -> None:
    _, cards, _ = await read(EXAMPLES["kunlun"])
    assert [card.numa for card in cards] == [0, 0, 0, 0, 1, 1, 1, 1]


async def test_every_family_has_an_example() -> None:
    words = {(await read(example))[0].plugin for example in EXAMPLES.values()}
    catalog = read_settings({"enable-ascend": True, "enable-iluvatar": True}, None).catalog
    assert words == {profile.plugin for profile in catalog}
