"""Examples of the walk over cards (scheduler 6.2, 6.3, 6.5)."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from gpuloom.wire.objects import ResourceQuota
from oracle.device import DeviceUsage
from oracle.fit import UnfitError, fit
from oracle.records import AllocatedDevice, Cluster, RegisteredCard, Request
from oracle.samples import a_node, a_pod, a_question, fitting_ids, ids_of


def a_device(
    used: int, count: int, usedmem: int, totalmem: int, usedcores: int, *, id_: str = "dev-0", numa: int = 0
) -> DeviceUsage:
    card = RegisteredCard(id_, count=count, devmem=totalmem, numa=numa)
    return DeviceUsage(card, used=used, usedmem=usedmem, usedcores=usedcores)


def idle(*ids: str, numa: int = 0, memory_mib: int = 1000) -> list[DeviceUsage]:
    return [a_device(0, 10, 0, memory_mib, 0, id_=id_, numa=numa) for id_ in ids]


def refusal_of(devices: list[DeviceUsage], request: Request, **circumstances: object) -> str:
    with pytest.raises(UnfitError) as caught:
        fitting_ids(devices, request, **circumstances)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("device", "request_", "share"),
    [
        (a_device(0, 100, 0, 128, 0), Request(1, 64, 101, 50), (64, 50)),
        (a_device(0, 100, 0, 1280, 0), Request(1, 512, 101, 120), (512, 100)),
        (a_device(20, 100, 0, 1280, 10), Request(1, 0, 10, 20), (128, 20)),
        (a_device(0, 10, 0, 11264, 0), Request(1, 0, 100, 0), (11264, 0)),
    ],
)
def test_a_card_gives_what_the_examples_say(device: DeviceUsage, request_: Request, share: tuple[int, int]):
    collected = fit([device], request_, a_question(a_pod({"gpu": 1})))
    assert [(card.share.usedmem, card.share.usedcores) for card in collected] == [share]


@pytest.mark.parametrize(
    ("devices", "request_", "reason"),
    [
        ([a_device(0, 100, 0, 128, 0)], Request(1, 512, 101, 50), "1/1 CardInsufficientMemory"),
        ([a_device(0, 100, 0, 1024, 100)], Request(1, 512, 101, 50), "1/1 CardInsufficientCore"),
        ([a_device(100, 100, 0, 1280, 0)], Request(1, 512, 101, 50), "1/1 CardTimeSlicingExhausted"),
        ([a_device(20, 100, 0, 1280, 0)], Request(1, 512, 101, 100), "1/1 ExclusiveDeviceAllocateConflict"),
        ([a_device(20, 100, 0, 1280, 100)], Request(1, 512, 101, 0), "1/1 CardComputeUnitsExhausted"),
        ([a_device(20, 100, 0, 1280, 10)], Request(2, 512, 101, 20), "1/1 AllocatedCardsInsufficientRequest"),
        ([a_device(0, 100, 0, 1280, 0)] * 2, Request(3, 512, 101, 20), "2/2 AllocatedCardsInsufficientRequest"),
    ],
)
def test_a_card_refuses_as_the_examples_say(devices: list[DeviceUsage], request_: Request, reason: str):
    assert refusal_of(devices, request_) == reason


def test_the_last_card_is_tried_first():
    assert fitting_ids(idle("dev-0", "dev-1"), Request(1, 64, 101, 50)) == ["dev-1"]


def test_an_unhealthy_card_is_refused_before_anything_else():
    device = a_device(100, 100, 0, 1, 0)
    device.health = False
    assert refusal_of([device], Request(1, 512)) == "1/1 CardNotHealth"


def test_a_cordoned_card_gives_nothing_new():
    node = a_node(annotations={"hami.io/device-cordon": " dev-0 ,, dev-1"})
    question = replace(a_question(a_pod({"gpu": 1})), node=node)
    with pytest.raises(UnfitError, match="2/2 CardCordoned"):
        fit(idle("dev-0", "dev-1"), Request(1, 64), question)


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({"nvidia.com/use-gputype": "h100, V100"}, "1/1 CardTypeMismatch"),
        ({"nvidia.com/use-gputype": " a100 ,"}, ""),
        ({"nvidia.com/use-gputype": " "}, ""),
        ({"nvidia.com/use-gputype": " , "}, "1/1 CardTypeMismatch"),
        ({"nvidia.com/nouse-gputype": "a100"}, "1/1 CardTypeMismatch"),
        ({"nvidia.com/nouse-gputype": "H100,"}, ""),
        ({"nvidia.com/use-gputype": "A100", "nvidia.com/nouse-gputype": "NVIDIA"}, "1/1 CardTypeMismatch"),
        ({"nvidia.com/use-gpuuuid": "dev-1, dev-0"}, ""),
        ({"nvidia.com/use-gpuuuid": "dev"}, "1/1 CardUuidMismatch"),
        ({"nvidia.com/use-gpuuuid": "dev-0", "nvidia.com/nouse-gpuuuid": "dev-0"}, "1/1 CardUuidMismatch"),
        ({"nvidia.com/vgpu-mode": "mig"}, "1/1 CardTypeMismatch"),
        ({"nvidia.com/vgpu-mode": "mig,hami-core"}, ""),
    ],
)
def test_annotations_narrow_the_choice(annotations: Mapping[str, str], reason: str):
    if reason:
        assert refusal_of(idle("dev-0"), Request(1, 64), annotations=annotations) == reason
    else:
        assert fitting_ids(idle("dev-0"), Request(1, 64), annotations=annotations) == ["dev-0"]


def test_mutex_wants_an_idle_card():
    device = a_device(1, 10, 0, 1000, 0)
    assert refusal_of([device], Request(1, 64), policy="mutex, spread") == "1/1 ExclusiveDeviceAllocateConflict"


def test_numa_binding_takes_all_cards_from_the_first_group_that_has_enough():
    devices = [*idle("dev-0", "dev-1", numa=0), *idle("dev-2", numa=1)]
    assert fitting_ids(devices, Request(2, 64), numa_bind=True) == ["dev-1", "dev-0"]


def test_without_numa_binding_cards_come_from_any_group():
    devices = [*idle("dev-0", "dev-1", numa=0), *idle("dev-2", numa=1)]
    assert fitting_ids(devices, Request(2, 64)) == ["dev-2", "dev-1"]


def test_a_numa_bound_refusal_names_the_earlier_groups_and_the_last_one():
    devices = [*idle("dev-0", numa=0), *idle("dev-1", "dev-2", numa=1)]
    reason = refusal_of(devices, Request(3, 64), numa_bind=True)
    assert reason == "1/3 AllocatedCardsInsufficientRequest, 2/3 NumaNotFit"


def test_a_topology_aware_walk_chooses_inside_the_best_numa_group():
    devices = [*idle("dev-0", "dev-1", numa=0), *idle("dev-2", "dev-3", numa=1)]
    devices[2].card = replace(devices[2].card, pair_scores={"dev-3": 50})
    devices[3].card = replace(devices[3].card, pair_scores={"dev-2": 50})
    assert fitting_ids(devices, Request(2, 64), policy="topology-aware", numa_bind=True) == ["dev-3", "dev-2"]


def with_quota(memory_mib: int, *, policy: str = "spread") -> list[str]:
    raw = {
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": memory_mib}},
    }
    cluster = Cluster({}, {}, {("default", "q"): msgspec.convert(raw, ResourceQuota)})
    question = replace(a_question(a_pod({"gpu": 1}), policy=policy), cluster=cluster)
    return ids_of(fit(idle("dev-0", "dev-1", "dev-2", "dev-3"), Request(2, 300), question))


def test_a_quota_that_just_suffices_is_enough():
    assert with_quota(600) == ["dev-3", "dev-2"]


def test_a_quota_refuses_the_cards_beyond_it():
    with pytest.raises(UnfitError, match="1/4 AllocatedCardsInsufficientRequest, 3/4 ResourceQuotaNotFit"):
        with_quota(599)


def test_a_topology_aware_request_is_tested_as_a_whole_and_not_by_all_its_candidates():
    assert with_quota(600, policy="topology-aware") == ["dev-3", "dev-2"]
    with pytest.raises(UnfitError, match="4/4 ResourceQuotaNotFit"):
        with_quota(599, policy="topology-aware")


def test_a_quota_counts_init_containers_by_the_rules_of_usage():
    raw = {"spec": {"hard": {"limits.nvidia.com/gpumem": 600}}}
    cluster = Cluster({}, {}, {("default", "q"): msgspec.convert(raw, ResourceQuota)})
    pod = a_pod({"gpu": 1}, {"gpu": 1}, init=[{"gpu": 1}])
    held = [[AllocatedDevice("dev-0", 500, 0)], [AllocatedDevice("dev-0", 300, 0)], []]
    question = replace(a_question(pod), cluster=cluster, position=2, earlier=held)
    assert ids_of(fit(idle("dev-0"), Request(1, 300), question)) == ["dev-0"]
    with pytest.raises(UnfitError, match="1/1 ResourceQuotaNotFit"):
        fit(idle("dev-0"), Request(1, 301), question)
