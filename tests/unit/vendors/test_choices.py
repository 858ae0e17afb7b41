"""What is done where HAMi's versions differ, choose at random, or leave it open: a test for each choice (vendors)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs
from unit.vendors.test_differences import Facts, choose, neurons, node, pod, refuse, register, start, write
from unit.vendors.test_examples import TIME, annotated, ask, capacity

from gpuloom.scheduler.recording import Player

MLUS = capacity(**{"cambricon.com/mlu.smlu.vcore": "300", "cambricon.com/mlu.smlu.vmemory": "300"})
DCU, SHARE = "hami.io/node-dcu-register", {"hygon.com/dcunum": "1"}
INDEXED = "".join(f"card-{at},4,32768,100,DCU-K100_AI,0,true,{at},hami-core:" for at in (0, 1))
LINES = "card-0,4,32768,100,DCU-K100_AI,0,true:card-1,4,32768,100,DCU-K100_AI,0,true:"


async def test_a_family_without_a_name_for_its_count_is_off() -> None:
    """vendors 0.3 empty count."""
    player = Player()
    config = {"hygon": {"resourceCountName": ""}, "biren": {"resourceCountName": "birentech.com/gpu"}}
    settings = {"type": "SETTINGS", "flags": {}, "deviceConfig": config, "time": TIME}
    await ask(player, settings, {"type": "ADDED", "object": node("n", register(DCU, {}))}, {"type": "RECONCILE"})
    answer = await choose(player, pod("p", {"": "1", **SHARE}))
    assert answer["patch"] is None


@pytest.mark.parametrize(
    "text",
    [
        LINES,
        json.dumps(
            [
                {"id": f"card-{at}", "count": 4, "devmem": 9, "devcore": 100, "health": True, "index": at}
                for at in (0, 1)
            ]
        ),
    ],
    ids=["vendors 1.3 lines", "vendors 1.3 JSON"],
)
async def test_every_register_is_read_in_both_forms(text: str) -> None:
    player = await start(node("n", annotated(**{DCU: text})))
    assert await refuse(player, pod("p", SHARE)) == "fits"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"hygon.com/use-gpuuuid": " card-0 , other"}, "card-0"),
        ({"hygon.com/nouse-gpuuuid": "card-1 "}, "card-0"),
        ({"hygon.com/use-gpuuuid": "  "}, "card-1"),
        ({"hygon.com/use-gpuuuid": "card-0,card-1", "hygon.com/nouse-gpuuuid": "card-1"}, "card-0"),
        ({"hygon.com/use-dcutype": "k100, Z100"}, "card-1"),
        ({"hygon.com/nouse-dcutype": ""}, "card-1"),
    ],
    ids=[
        "vendors 1.6 items are trimmed",
        "vendors 1.6 cards to avoid",
        "vendors 1.6 blank is no constraint",
        "vendors 1.6 both lists apply",
        "vendors 1.6 types ignore case",
        "vendors 1.6 a blank type is no constraint",
    ],
)
async def test_cards_are_narrowed_by_annotations(said: dict[str, str], expected: str) -> None:
    player = await start(node("n", annotated(**{DCU: INDEXED})))
    written = await write(player, pod("p", SHARE, annotations=said))
    assert written["hami.io/dcu-devices-allocated"].split(",")[0] == expected


@pytest.mark.parametrize(
    ("facts", "resource", "key"),
    [
        (MLUS, "cambricon.com/vmlu", "cambricon.com/use-mlutype"),
        (register("hami.io/node-va-register", {}), "vastaitech.com/va", "vastaitech.com/use-va"),
        (register("hami.io/node-biren-register", {}), "birentech.com/gpu", "birentech.com/use-biren"),
    ],
)
async def test_annotations_that_hami_only_names_have_no_effect(facts: Facts, resource: str, key: str) -> None:
    """vendors 1.6 constants."""
    assert await refuse(await start(node("n", facts)), pod("p", {resource: "1"}, annotations={key: "none"})) == "fits"


async def test_several_mlus_of_a_container_stand_in_the_lists_and_the_first_in_the_profile() -> None:
    """vendors 4.2 several devices."""
    limits = {"cambricon.com/vmlu": "2", "cambricon.com/mlu.smlu.vmemory": "20", "cambricon.com/mlu.smlu.vcore": "10"}
    written = await write(await start(node("n", MLUS)), pod("p", {}, limits))
    assert written["hami.io/cambricon-mlu-devices-allocated"] == (
        ";n-cambricon-mlu-2,MLU,5120,10:n-cambricon-mlu-1,MLU,5120,10:;"
    )
    assert written["CAMBRICON_DSMLU_PROFILE"] == "2_10_20"


@pytest.mark.parametrize(("count", "warnings"), [("1", []), ("2", [2])])
async def test_that_cambricons_plugin_hears_of_one_card_only_is_warned_of(count: str, warnings: list[int]) -> None:
    """vendors 4.2 several devices."""
    player = await start(node("n", MLUS))
    with capture_logs() as logs:
        await write(player, pod("p", {"cambricon.com/vmlu": count, "cambricon.com/mlu.smlu.vcore": "10"}))
    assert [one["cards"] for one in logs if "first card only" in one["event"]] == warnings


async def test_iluvatar_chips_are_tried_from_the_last_one() -> None:
    """vendors 4.4 backward."""
    player = await start(node("n", register("hami.io/node-BI-V150-register", {}, {}, {})))
    written = await write(player, pod("p", {"iluvatar.ai/BI-V150-vgpu": "1", "iluvatar.ai/BI-V150.vMem": "1"}))
    assert written["hami.io/BI-V150-devices-allocated"].startswith("card-2,")


async def test_slots_of_older_iluvatar_are_numbered_among_regular_containers() -> None:
    """vendors 4.5 slots."""
    names = {"count": "iluvatar.ai/vgpu", "memory": "iluvatar.ai/vcuda-memory", "core": "iluvatar.ai/vcuda-core"}
    config = {"iluvatar": {f"resource{part.title()}Name": name for part, name in names.items()}}
    player = Player()
    settings = {"type": "SETTINGS", "flags": {}, "deviceConfig": config, "time": TIME}
    facts = capacity(**{names["core"]: "200", names["memory"]: "256"})
    await ask(player, settings, {"type": "ADDED", "object": node("n", facts)}, {"type": "RECONCILE"})
    share = {names["count"]: "1", names["memory"]: "8", names["core"]: "10"}
    asked = pod("p", {}, share)
    asked["spec"]["initContainers"] = [{"name": "i", "resources": {"limits": share}}]
    written = await write(player, asked)
    assert written["hami.io/iluvatar-vgpu-devices-allocated"].count(";") == 3
    assert [key for key in written if "predicate-gpu-idx" in key] == ["iluvatar.ai/predicate-gpu-idx-1"]


@pytest.mark.parametrize("word", ["Metax-GPU", "Metax"], ids=["vendors 4.7.1 newer word", "vendors 4.7.1 older word"])
async def test_cards_given_under_both_words_of_metax_are_in_use(word: str) -> None:
    held = {"hami.io/metax-gpu-devices-allocated": f"n-metax-0,{word},65536,100:;"}
    facts = capacity(**{"metax-tech.com/gpu": "1"})
    player = await start(node("n", facts), pod("r", annotations=held, on="n"))
    assert await refuse(player, pod("p", {"metax-tech.com/gpu": "1"})) == "1/1 CardTimeSlicingExhausted"


async def test_of_equal_zones_of_metax_the_one_of_the_first_candidate_is_taken() -> None:
    """vendors 4.7.2 zones."""
    card = {"totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True}
    cards = [{"uuid": f"m-{at}", "linkZone": zone, **card} for at, zone in enumerate((1, 1, 2, 2))]
    player = await start(node("n", annotated(**{"metax-tech.com/node-gpu-devices": cards})))
    written = await write(player, pod("p", {"metax-tech.com/sgpu": "2"}))
    assert written["hami.io/metax-sgpu-devices-allocated"] == "m-3,Metax-SGPU,65536,100:m-2,Metax-SGPU,65536,100:;"


CHIP = "huawei.com/Ascend910B3"


async def test_memory_of_a_pod_that_the_webhook_has_not_seen_is_a_template() -> None:
    """vendors 4.8 trim."""
    player = await start(node("n", register("hami.io/node-register-Ascend910B3", {"devmem": 65536})))
    written = await write(player, pod("p", {CHIP: "1", f"{CHIP}-memory": "100"}))
    assert json.loads(written[CHIP]) == [{"UUID": "card-0", "temp": "vir05_1c_16g", "memory": 16384}]


async def test_memory_beyond_a_chip_asks_for_nothing() -> None:
    """vendors 4.8 trim: no template and no card holds so much."""
    player = await start(node("n", register("hami.io/node-register-Ascend910B3", {"devmem": 65536})))
    assert (await choose(player, pod("p", {CHIP: "1", f"{CHIP}-memory": "65537"})))["patch"] is None


def linked(key: str, *groups: Mapping[str, Any]) -> Facts:
    return register(key, *({"custominfo": group} for group in groups))


@pytest.mark.parametrize(
    ("facts", "resource", "allocated", "taken"),
    [
        (
            linked("hami.io/node-register-Ascend910B3", *({"NetworkID": one} for one in (0, 0, 1, 1))),
            CHIP,
            "hami.io/Ascend910B3-devices-allocated",
            ["card-3", "card-2"],
        ),
        (
            linked("hami.io/node-va-register", *({"DeviceStrategy": "die", "AIC": one} for one in "aabb")),
            "vastaitech.com/va",
            "hami.io/Vastai-devices-allocated",
            ["card-3", "card-2"],
        ),
        (
            register("hami.io/node-register-Ascend910C", {}, {}, {}, {}),
            "huawei.com/Ascend910C",
            "hami.io/Ascend910C-devices-allocated",
            ["card-3", "card-2"],
        ),
    ],
    ids=["vendors 4.8 groups", "vendors 4.13 boards", "vendors 4.8 pairs"],
)
async def test_of_equal_groups_the_one_of_the_card_tried_first_is_taken(
    facts: Facts, resource: str, allocated: str, taken: list[str]
) -> None:
    written = await write(await start(node("n", facts)), pod("p", {resource: "2"}))
    assert [one.split(",")[0] for one in written[allocated].rstrip(":;").split(":")] == taken


async def test_runs_of_neuron_devices_heed_the_devices_that_a_pod_names() -> None:
    """vendors 4.11 UUIDs."""
    player = await start(node("n", neurons(4, 4)))
    said = {"aws.amazon.com/nouse-neuron-uuid": "n-AWSNeuron-0"}
    assert (await write(player, pod("p", {"aws.amazon.com/neuron": "2"}, annotations=said)))["AWS_NEURON_IDS"] == "1,2"
