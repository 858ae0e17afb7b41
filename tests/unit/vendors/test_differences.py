"""Where HAMi's backends have defects or traps, and what is done here: one test or more for each row (vendors 6)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from oracle.reviews import apply_patch
from unit.vendors.test_examples import TIME, annotated, ask, capacity

from gpuloom.scheduler.recording import Player

Facts = Mapping[str, Any]
ENABLED = {"scheduler-name": "hami-scheduler", "enable-ascend": True, "enable-iluvatar": True}
SOON = "2024-11-20T03:29:20Z"
"""65 seconds after the beginning."""


def node(name: str, facts: Facts) -> dict[str, Any]:
    metadata = {"name": name, **facts.get("metadata", {})}
    return {"kind": "Node", "metadata": metadata, "status": facts.get("status", {})}


def pod(
    name: str, *limits: Mapping[str, str], annotations: Mapping[str, str] | None = None, on: str = ""
) -> dict[str, Any]:
    containers = [{"name": f"c{at}", "resources": {"limits": dict(one)}} for at, one in enumerate(limits)]
    said = {**({"hami.io/vgpu-node": on} if on else {}), **(annotations or {})}
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": said}
    spec = {"containers": containers, **({"nodeName": on} if on else {})}
    return {"kind": "Pod", "metadata": metadata, "spec": spec}


async def start(*objects: Mapping[str, Any], **flags: Any) -> Player:
    player = Player()
    settings = {"type": "SETTINGS", "flags": {**ENABLED, **flags}, "time": TIME}
    await ask(player, settings, *({"type": "ADDED", "object": one} for one in objects), {"type": "RECONCILE"})
    return player


async def choose(player: Player, asking: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return await ask(player, {"type": "FILTER", "args": {"Pod": asking, "NodeNames": list(names) or ["n"]}})


async def write(player: Player, asking: Mapping[str, Any], *names: str) -> dict[str, str]:
    """What a decision writes on its pod."""
    answer = await choose(player, asking, *names)
    assert answer["patch"], answer["result"]
    written: dict[str, str] = answer["patch"]["metadata"]["annotations"]
    return written


async def refuse(player: Player, asking: Mapping[str, Any]) -> str:
    answer = await choose(player, asking)
    return str((answer["result"]["FailedNodes"] or {}).get("n", "fits"))


async def admit(asking: Mapping[str, Any], **flags: Any) -> dict[str, Any]:
    request = {"uid": "r", "namespace": "default", "object": asking}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = await ask(await start(**flags), {"type": "REVIEW", "review": body})
    patched: dict[str, Any] = apply_patch(asking, answer["response"]["response"].get("patch") or [])
    return patched


def register(key: str, *cards: Mapping[str, Any], **more: str) -> dict[str, Any]:
    plain = {"count": 4, "devmem": 32768, "devcore": 100, "health": True}
    listed = [{"id": f"card-{at}", "index": at, **plain, **card} for at, card in enumerate(cards)]
    return annotated(**{key: listed, **more})


MLU = capacity(**{"cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "180"})
NEURON, NEURON_CORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"


def neurons(devices: int, cores: int) -> dict[str, Any]:
    labels = {"node.kubernetes.io/instance-type": "inf2.24xlarge"}
    return {"metadata": {"labels": labels}} | capacity(
        **{NEURON: str(devices), "aws.amazon.com/neuroncore": str(cores)}
    )


async def test_both_spellings_of_cambricons_key_are_written() -> None:
    """V-01."""
    written = await write(await start(node("n", MLU)), pod("p", {"cambricon.com/vmlu": "1"}))
    assert (written["CAMBRICON_DSMLU_ASSIGNED"], written["CAMBRICON_DSMLU_ASSIGHED"]) == ("false", "false")


@pytest.mark.parametrize(
    ("switch", "asked", "cores"),
    [
        (False, {"cambricon.com/vmlu": "1"}, None),
        (True, {"cambricon.com/vmlu": "1"}, 100),
        (True, {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "4"}, None),
    ],
    ids=["V-02 off; D-46", "V-02 on; D-46", "V-02 on, memory is named; D-46"],
)
async def test_cores_of_a_bare_count_of_mlus_are_named_where_that_is_wanted(
    asked: dict[str, str], cores: int | None, *, switch: bool
) -> None:
    changed = await admit(pod("p", asked), **{"mlu-default-cores": switch})
    limits = changed["spec"]["containers"][0]["resources"]["limits"]
    assert limits.get("cambricon.com/mlu.smlu.vcore") == (cores and str(cores))


async def test_a_chip_whose_word_begins_like_anothers_does_not_get_its_cards() -> None:
    """V-03."""
    longer = register("hami.io/node-register-Ascend910B4-1", {}, {})
    player = await start(node("n", longer))
    assert await refuse(player, pod("p", {"huawei.com/Ascend910B4": "1"})) == "NodeInsufficientDevice"
    assert await refuse(player, pod("q", {"huawei.com/Ascend910B4-1": "1"})) == "fits"


@pytest.mark.parametrize(
    ("switch", "said"),
    [(True, "4/4 CardNotFoundCustomFilterRule"), (False, "fits")],
    ids=["V-04 as HAMi; D-45", "V-04 off; D-45"],
)
async def test_two_containers_with_whole_metax_cards_never_fit_unless_that_is_switched_off(
    said: str, *, switch: bool
) -> None:
    player = await start(node("n", capacity(**{"metax-tech.com/gpu": "4"})), **{"metax-same-card": switch})
    one = {"metax-tech.com/gpu": "1"}
    refused = await refuse(player, pod("p", one, one))
    assert refused == said or (said != "fits" and "CardNotFoundCustomFilterRule" in refused)


async def test_runs_of_neuron_devices_are_runs_of_their_numbers() -> None:
    """V-05b."""
    held = pod("r", annotations={"hami.io/aws-neuron-devices-allocated": "n-AWSNeuron-2,AWSNeuron,0,3:;"}, on="n")
    player = await start(node("n", neurons(4, 8)), held, **{"gpu-scheduler-policy": "mutex"})
    assert (await write(player, pod("p", {NEURON: "2"})))["AWS_NEURON_IDS"] == "0,1"


@pytest.mark.parametrize(
    ("cards", "asked", "said"),
    [(4, "4", "fits"), (4, "8", "NodeInsufficientDevice"), (6, "4", "fits"), (1, "1", "fits"), (5, "2", "fits")],
    ids=lambda value: f"V-06 {value}",
)
async def test_nodes_with_fewer_than_eight_kunlun_cards_are_served(cards: int, asked: str, said: str) -> None:
    player = await start(node("n", capacity(**{"kunlunxin.com/xpu": str(cards)})))
    assert said in await refuse(player, pod("p", {"kunlunxin.com/xpu": asked}))


@pytest.mark.parametrize(
    ("free", "given"),
    [((2, 4), None), ((4, 5), [4, 5]), ((2, 6), [2, 6]), ((1, 2, 6), [1, 2]), ((0, 4, 5, 6), [4, 5])],
    ids=lambda value: f"vendors 4.10 {value}",
)
async def test_a_missing_card_of_kunlun_moves_no_other_into_another_wing(
    free: tuple[int, ...], given: list[int] | None
) -> None:
    present = (6, 5, 4, 2, 1, 0)
    cards = ({"id": f"xpu-{at}", "index": at, "devmem": 98304, "health": at in free} for at in present)
    player = await start(node("n", register("hami.io/node-register-xpu", *cards)))
    asked = pod("p", {"kunlunxin.com/vxpu": "2"})
    if given is None:
        assert await refuse(player, asked) == "1/6 NumaNotFit"
    else:
        shares = "".join(f"xpu-{at},XPU,98304,100:" for at in given)
        assert (await write(player, asked))["hami.io/xpu-devices-allocated"] == f"{shares};"


def networks(*numbers: int) -> dict[str, Any]:
    return register("hami.io/node-register-Ascend910B3", *({"custominfo": {"NetworkID": number}} for number in numbers))


def boards(*names: str) -> dict[str, Any]:
    said = ({"custominfo": {"DeviceStrategy": "die", "AIC": name}} for name in names)
    return register("hami.io/node-va-register", *said)


LINKED: dict[str, tuple[Facts, Facts, str]] = {
    "V-07 Ascend; D-44": (networks(0, 0), networks(0, 1), "huawei.com/Ascend910B3"),
    "V-07 Vastai; D-44": (boards("a", "a"), boards("a", "b"), "vastaitech.com/va"),
}


@pytest.mark.parametrize(("sign", "chosen"), [("fixed", "linked"), ("upstream", "apart")])
@pytest.mark.parametrize("case", LINKED)
async def test_under_spread_better_linked_cards_are_better_unless_as_hami(case: str, sign: str, chosen: str) -> None:
    linked, apart, resource = LINKED[case]
    flags = {"node-scheduler-policy": "spread", "topology-score-sign": sign}
    player = await start(node("linked", linked), node("apart", apart), **flags)
    answer = await choose(player, pod("p", {resource: "2"}), "linked", "apart")
    assert answer["result"]["NodeNames"] == [chosen]


@pytest.mark.parametrize("sign", ["fixed", "upstream"])
@pytest.mark.parametrize("case", LINKED)
async def test_under_binpack_better_linked_cards_are_better_whatever_the_switch_says(case: str, sign: str) -> None:
    linked, apart, resource = LINKED[case]
    flags = {"node-scheduler-policy": "binpack", "topology-score-sign": sign}
    player = await start(node("apart", apart), node("linked", linked), **flags)
    answer = await choose(player, pod("p", {resource: "2"}), "apart", "linked")
    assert answer["result"]["NodeNames"] == ["linked"]


@pytest.mark.parametrize(
    ("sign", "chosen"),
    [("fixed", "whole"), ("upstream", "cut")],
    ids=["V-07 Kunlun; D-44", "V-07 Kunlun as HAMi; D-44"],
)
async def test_under_spread_the_better_cut_of_kunluns_wings_wins_unless_as_hami(sign: str, chosen: str) -> None:
    """A card that was alone in its wing gets company on the one node (3000 points), two get it on the other (2000)."""
    facts = capacity(**{"kunlunxin.com/xpu": "8"})
    flags = {"node-scheduler-policy": "spread", "topology-score-sign": sign}
    player = await start(node("whole", facts), node("cut", facts), *hold("whole", 0, 4), *hold("cut", 0, 1), **flags)
    answer = await choose(player, pod("p", {"kunlunxin.com/xpu": "1"}), "whole", "cut")
    assert answer["result"]["NodeNames"] == [chosen]


def hold(name: str, *cards: int) -> list[dict[str, Any]]:
    """Pods that hold whole Kunlun cards of a node."""
    key = "hami.io/kunlun-allocated"
    return [pod(f"{name}-{at}", annotations={key: f"{name}-kunlun-{at},kunlun,98304,100:;"}, on=name) for at in cards]


@pytest.mark.parametrize(
    ("core_ids", "asked", "ids"),
    [
        (True, ({NEURON: "1"}, {NEURON_CORE: "1"}), "6,7,4"),
        (False, ({NEURON: "1"}, {NEURON_CORE: "1"}), "3,4"),
        (False, ({NEURON: "1"}, {NEURON: "1"}), "3,2"),
    ],
    ids=["D-51", "D-51 as HAMi", "D-51 as HAMi, devices alone"],
)
async def test_ids_of_neuron_are_all_of_cores_where_a_container_asks_for_cores(
    asked: tuple[dict[str, str], ...], ids: str, *, core_ids: bool
) -> None:
    player = await start(node("n", neurons(4, 8)), **{"neuron-core-ids": core_ids})
    assert (await write(player, pod("p", *asked)))["AWS_NEURON_IDS"] == ids


@pytest.mark.parametrize(
    ("nodes", "cores", "said"),
    [
        ([], "1", None),
        ([], "3", f"{NEURON_CORE} must be 1 or a multiple of 2, got 3"),
        ([(4, 8)], "3", f"{NEURON_CORE} must be 1 or a multiple of 2, got 3"),
        ([(4, 8)], "6", None),
        ([(4, 4)], "3", None),
        ([(4, 4), (4, 8)], "3", None),
    ],
)
async def test_cores_of_neuron_that_fill_no_devices_of_any_node_are_denied(
    nodes: list[tuple[int, int]], cores: str, said: str | None
) -> None:
    """V-08."""
    player = await start(*(node(f"n{at}", neurons(*shape)) for at, shape in enumerate(nodes)))
    request = {"uid": "r", "namespace": "default", "object": pod("p", {NEURON_CORE: cores})}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    answer = (await ask(player, {"type": "REVIEW", "review": body}))["response"]["response"]
    assert (answer.get("status") or {}).get("message") == said
    assert answer["allowed"] == (said is None)


async def test_cores_beside_a_count_of_neuron_devices_ask_for_nothing() -> None:
    """vendors 4.11."""
    changed = await admit(pod("p", {NEURON: "1", NEURON_CORE: "3"}))
    assert changed["spec"]["schedulerName"] == "hami-scheduler"


@pytest.mark.parametrize(
    ("rounds", "memory"), [(True, 16384), (False, 1000)], ids=["D-50 the template's", "D-50 as HAMi"]
)
async def test_ascend_pods_that_no_webhook_saw_count_with_their_template(memory: int, *, rounds: bool) -> None:
    facts = register("hami.io/node-register-Ascend910B3", {"devmem": 65536})
    player = await start(node("n", facts), **{"ascend-round-unseen": rounds})
    asked = {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "1000"}
    written = await write(player, pod("p", asked))
    assert written["hami.io/Ascend910B3-devices-allocated"] == f"card-0,Ascend910B3,{memory},0:;"
    assert json.loads(written["huawei.com/Ascend910B3"])[0]["temp"] == "vir05_1c_16g"


@pytest.mark.parametrize(
    ("held", "said"),
    [(24576, "8/8 ExclusiveDeviceAllocateConflict"), (98304, "1/8 NumaNotFit")],
    ids=["could be shared", "full"],
)
async def test_a_kunlun_share_that_wants_to_be_alone_is_refused_for_cards_that_it_could_share(
    held: int, said: str
) -> None:
    """vendors 4.10."""
    cards = [{"id": f"xpu-{at}", "index": at, "devmem": 98304} for at in range(8)]
    shares = "".join(f"xpu-{at},XPU,{held},25:" for at in range(8))
    running = pod("r", annotations={"hami.io/xpu-devices-allocated": f"{shares};"}, on="n")
    player = await start(node("n", register("hami.io/node-register-xpu", *cards)), running)
    asked = pod(
        "p",
        {"kunlunxin.com/vxpu": "1", "kunlunxin.com/vxpu-memory": "24576"},
        annotations={"hami.io/gpu-scheduler-policy": "mutex"},
    )
    assert await refuse(player, asked) == said


async def test_every_node_has_its_own_number_of_cores_a_neuron_device() -> None:
    """V-08."""
    player = await start(node("one", neurons(4, 4)), node("two", neurons(4, 8)))
    asked = pod("p", {"aws.amazon.com/neuroncore": "2"})
    key = "hami.io/aws-neuron-devices-allocated"
    assert (await write(player, asked, "one"))[key].count("AWSNeuron,0,1:") == 2
    assert (await write(player, asked, "two"))[key].count("AWSNeuron,0,3:") == 1


DRS = {"devices": [{"index": "0", "capacity": 4}], "profiles": {"1g.8gb": "0", "3g.24gb": "1", "4g.32gb": "2"}}


@pytest.mark.parametrize(("slices", "said"), [("1", "fits"), ("3", "1/1 CardInsufficientMemory")])
async def test_slices_of_enflame_are_known_after_a_restart(slices: str, said: str) -> None:
    """V-09."""
    held = {
        "hami.io/enflame-vgpu-devices-allocated": "n-enflame-drs-0,Enflame,24576,75:;",
        "assigned-containers": json.dumps({"c0": {"request": 3}}),
    }
    player = await start(
        node("n", annotated(**{"enflame.com/gcu-drs-capacity": DRS})), pod("r", {}, annotations=held, on="n")
    )
    refused = await refuse(player, pod("p", {"enflame.com/drs-gcu": slices}))
    assert refused == said or (said != "fits" and refused.startswith("1/1 Card"))


async def test_slots_of_enflame_count_slices_after_a_restart() -> None:
    """V-09: of four slots four are taken, whatever is left of memory and cores."""
    held = {
        "hami.io/enflame-vgpu-devices-allocated": "n-enflame-drs-0,Enflame,8192,25:;",
        "assigned-containers": json.dumps({"c0": {"request": 4}}),
    }
    player = await start(
        node("n", annotated(**{"enflame.com/gcu-drs-capacity": DRS})), pod("r", {}, annotations=held, on="n")
    )
    assert await refuse(player, pod("p", {"enflame.com/drs-gcu": "1"})) == "1/1 CardTimeSlicingExhausted"


@pytest.mark.parametrize(
    ("facts", "limits", "key", "indexes"),
    [
        (capacity(**{"kunlunxin.com/xpu": "8"}), {"kunlunxin.com/xpu": "1"}, "BAIDU_COM_DEVICE_IDX", "1"),
        (neurons(4, 4), {NEURON: "1"}, "AWS_NEURON_IDS", "3,2"),
        (
            capacity(**{"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}),
            {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "32", "mthreads.com/sgpu-core": "4"},
            "mthreads.com/gpu-index",
            "1",
        ),
    ],
    ids=["V-10 Kunlun", "V-10 AWS", "V-10 Mthreads"],
)
async def test_indexes_are_those_of_the_last_container_or_of_all_neuron_devices(
    facts: Facts, limits: dict[str, str], key: str, indexes: str
) -> None:
    assert (await write(await start(node("n", facts)), pod("p", limits, limits)))[key] == indexes


@pytest.mark.parametrize(
    ("key", "word", "resource"),
    [
        ("hami.io/node-MR-V100-register", "MR-V100", "iluvatar.ai/MR-V100-vgpu"),
        ("hami.io/node-dcu-register", "dcu", "hygon.com/dcunum"),
    ],
    ids=["V-11", "V-14"],
)
async def test_a_plugin_that_answers_no_question_and_offers_nothing_is_gone_after_a_minute(
    key: str, word: str, resource: str
) -> None:
    handshake = f"hami.io/node-handshake-{word}"
    asked = {handshake: "Requesting_2024-11-20 03:28:15"}
    player = await start(node("n", register(key, {}, **asked)))
    assert await refuse(player, pod("p", {resource: "1"})) == "fits"
    answer = await ask(player, {"type": "RECONCILE", "time": SOON})
    assert [one["patch"]["metadata"]["annotations"] for one in answer["patches"]] == [{handshake: None}]
    assert await refuse(player, pod("q", {resource: "1"})) == "node unregistered"


@pytest.mark.parametrize("held", ["p", "another pod"], ids=["V-12 its own", "V-12 another's"])
async def test_cambricons_lock_has_no_holder_and_is_not_reentrant(held: str) -> None:
    locked = {**MLU, "metadata": {"annotations": {"cambricon.com/dsmlu.lock": "2024-11-20T03:27:00Z"}}}
    asked = pod(held if held == "p" else "q", {"cambricon.com/vmlu": "1"})
    player = await start(node("n", locked), asked)
    await choose(player, asked)
    name = asked["metadata"]["name"]
    args = {"PodName": name, "PodNamespace": "default", "PodUID": name, "Node": "n"}
    answer = await ask(player, {"type": "BIND", "args": args})
    assert "node lock contention" in answer["result"]["Error"]


async def test_cambricons_lock_is_taken_over_after_two_minutes() -> None:
    """V-12."""
    locked = {**MLU, "metadata": {"annotations": {"cambricon.com/dsmlu.lock": "2024-11-20T03:26:10Z"}}}
    asked = pod("p", {"cambricon.com/vmlu": "1"})
    player = await start(node("n", locked), asked)
    await choose(player, asked)
    answer = await ask(
        player, {"type": "BIND", "args": {"PodName": "p", "PodNamespace": "default", "PodUID": "p", "Node": "n"}}
    )
    assert answer["result"]["Error"] == ""


@pytest.mark.parametrize(
    ("cores", "said"),
    [({}, "ExclusiveDeviceAllocateConflict"), ({"hygon.com/dcucores": "40"}, "fits")],
    ids=["V-13 memory alone", "V-13 cores too"],
)
async def test_memory_alone_takes_all_cores_of_a_dcu(cores: dict[str, str], said: str) -> None:
    player = await start(node("n", register("hami.io/node-dcu-register", {})))
    share = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "1000", **cores}
    await choose(player, pod("p", share))
    refused = await refuse(player, pod("q", share))
    assert refused == said or (said != "fits" and refused.startswith("1/1 Card"))


async def test_a_plugin_that_still_offers_cards_is_not_gone() -> None:
    """V-14."""
    facts = register(
        "hami.io/node-dcu-register", {}, **{"hami.io/node-handshake-dcu": "Requesting_2024-11-20 03:28:15"}
    )
    player = await start(node("n", {**facts, "status": {"allocatable": {"hygon.com/dcunum": "4"}}}))
    await ask(player, {"type": "RECONCILE", "time": SOON})
    assert await refuse(player, pod("p", {"hygon.com/dcunum": "1"})) == "fits"


async def test_a_card_is_full_at_most_where_software_gives_away_more_cores_than_it_registered() -> None:
    """V-15: 10 x (1 of 4 slots + all cores + 1000 of 10000 MiB)."""
    key, resource = "hami.io/node-register-Ascend910B3", "huawei.com/Ascend910B3"
    soft = {"huawei.com/vnpu-mode": "hami-core"}
    facts = register(key, {"devcore": 20, "devmem": 10000}, **{"hami-vnpu-core": "true"})
    held = {**soft, "hami.io/Ascend910B3-devices-allocated": "card-0,Ascend910B3,1000,60:;"}
    player = await start(node("n", facts), pod("r", annotations=held, on="n"))
    share = {resource: "1", f"{resource}-memory": "1000", f"{resource}-core": "10"}
    answer = await choose(player, pod("p", share, annotations=soft))
    assert answer["events"][0]["message"].endswith("(n:13.50)")


async def test_a_policy_that_a_metax_card_does_not_show_yet_is_known_after_a_restart() -> None:
    """V-16."""
    card = {"uuid": "m-0", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True}
    facts = annotated(**{"metax-tech.com/node-gpu-devices": [{**card, "qosPolicy": "fixed-share"}]})
    policy = "metax-tech.com/sgpu-qos-policy"
    held = {policy: "burst-share", "metax-tech.com/predicate-time": "1"}
    held["hami.io/metax-sgpu-devices-allocated"] = "m-0,Metax-SGPU,1024,10:;"
    player = await start(node("n", facts), pod("r", annotations=held, on="n"))
    share = {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": "10", "metax-tech.com/vmemory": "1"}
    shown = pod("p", share, annotations={policy: "fixed-share"})
    assert await refuse(player, shown) == "1/1 CardQosPolicyMismatch"
    assert await refuse(player, pod("q", share, annotations={policy: "burst-share"})) == "fits"


async def test_amds_registration_is_removed_when_no_card_is_left() -> None:
    """vendors 4.12 clean-up."""
    key = "hami.io/node-amd-register"
    player = await start(node("n", {**register(key, {}), **capacity(**{"amd.com/gpu": "4"})}))
    assert await refuse(player, pod("p", {"amd.com/gpu": "1"})) == "fits"
    gone = node("n", {**register(key, {}), **capacity(**{"amd.com/gpu": "0"})})
    answer = await ask(player, {"type": "MODIFIED", "object": gone}, {"type": "RECONCILE"})
    assert [one["patch"]["metadata"]["annotations"] for one in answer["patches"]] == [{key: None}]
    assert await refuse(player, pod("q", {"amd.com/gpu": "1"})) == "node unregistered"


async def test_a_policy_that_a_metax_card_shows_is_no_longer_expected() -> None:
    """V-16: with the card's new policy shown, and its pod gone, any policy will do."""
    policy, key = "metax-tech.com/sgpu-qos-policy", "metax-tech.com/node-gpu-devices"
    card = {"uuid": "m-0", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "healthy": True}
    held = {policy: "burst-share", "hami.io/metax-sgpu-devices-allocated": "m-0,Metax-SGPU,1024,10:;"}
    player = await start(node("n", annotated(**{key: [card]})), pod("r", annotations=held, on="n"))
    shown = node("n", annotated(**{key: [{**card, "qosPolicy": "burst-share"}]}))
    await ask(player, {"type": "MODIFIED", "object": shown}, {"type": "RECONCILE"})
    share = {"metax-tech.com/sgpu": "1", "metax-tech.com/vcore": "10", "metax-tech.com/vmemory": "1"}
    fixed = pod("p", share, annotations={policy: "fixed-share"})
    assert await refuse(player, fixed) == "1/1 CardQosPolicyMismatch"
    await ask(player, {"type": "DELETED", "object": pod("r", annotations=held, on="n")})
    assert await refuse(player, fixed) == "fits"
