"""Examples of cards that are divided by geometries (scheduler 6.8)."""

import pytest

from oracle import geometries
from oracle.device import DeviceUsage
from oracle.fit import UnfitError, fit
from oracle.nodefit import fit_container, fit_node
from oracle.records import AllocatedDevice, RegisteredCard, Request
from oracle.samples import a_pod, a_question
from oracle.scores import Weights
from oracle.settings import DeviceConfig, GeometryEntry, KnownGeometries, Settings

A100 = KnownGeometries(
    models=("A100-SXM4-40GB",),
    geometries=(
        (GeometryEntry("1g.5gb", 14, 5120, 7),),
        (GeometryEntry("1g.5gb", 14, 5120, 1), GeometryEntry("2g.10gb", 28, 10240, 3)),
        (GeometryEntry("3g.20gb", 42, 20480, 2),),
        (GeometryEntry("7g.40gb", 100, 40960, 1),),
    ),
)
SETTINGS = Settings(devices=DeviceConfig(known_geometries=(A100,)))


def a_card(mode: str = "mig", model: str = "NVIDIA A100-SXM4-40GB") -> DeviceUsage:
    return DeviceUsage(RegisteredCard("GPU-0", count=7, devmem=40960, type=model, mode=mode))


def ask(device: DeviceUsage, memory_mib: int, nums: int = 1) -> list[AllocatedDevice]:
    question = a_question(a_pod({"gpu": nums}), settings=SETTINGS)
    return fit_container([device], Request(nums, memory_mib), question, Weights(), [])


def parts(devices: list[AllocatedDevice]) -> list[tuple[str, int, int]]:
    return [(device.uuid, device.usedmem, device.usedcores) for device in devices]


def test_small_requests_divide_the_card_into_seven():
    device = a_card()
    assert parts(ask(device, 5000) + ask(device, 5000)) == [("GPU-0[0-0]", 5120, 14), ("GPU-0[0-1]", 5120, 14)]
    with pytest.raises(UnfitError, match="1/1 CardNotFoundCustomFilterRule"):
        ask(device, 8000)


def test_a_larger_request_chooses_the_geometry_for_those_that_follow():
    device = a_card()
    given = [part for memory_mib in (10000, 8000, 5000, 9000) for part in ask(device, memory_mib)]
    assert [uuid for uuid, _, _ in parts(given)] == ["GPU-0[1-1]", "GPU-0[1-2]", "GPU-0[1-0]", "GPU-0[1-3]"]
    assert not geometries.has_capacity(device, 9000, [], SETTINGS)


def test_one_container_may_take_several_instances_of_one_card():
    assert [uuid for uuid, _, _ in parts(ask(a_card(), 8000, nums=3))] == ["GPU-0[1-1]", "GPU-0[1-2]", "GPU-0[1-3]"]


def test_a_geometry_that_an_init_container_chooses_holds_for_the_pod():
    question = a_question(a_pod({"gpu": 1}, init=[{"gpu": 1}]), settings=SETTINGS)
    placed = fit_node([a_card()], [Request(1, 10000), Request(1, 5000)], question, Weights())
    assert [parts(devices) for devices in placed.devices] == [[("GPU-0[1-1]", 10240, 28)], [("GPU-0[1-0]", 5120, 14)]]
    with pytest.raises(UnfitError, match="1/1 CardNotFoundCustomFilterRule"):
        fit_node([a_card()], [Request(1, 5000), Request(1, 10000)], question, Weights())


def test_a_percentage_is_an_amount_of_the_card():
    """B-42."""
    question = a_question(a_pod({"gpu": 1}), settings=SETTINGS)
    given = fit_container([a_card()], Request(1, 0, 50), question, Weights(), [])
    assert parts(given) == [("GPU-0[2-0]", 20480, 42)]


def test_a_card_without_known_geometry_never_fits():
    question = a_question(a_pod({"gpu": 1}), settings=SETTINGS)
    with pytest.raises(UnfitError, match="CardNotFoundCustomFilterRule"):
        fit([a_card(model="NVIDIA H100")], Request(1, 1), question)


def test_an_allocated_instance_is_used():
    device = a_card()
    geometries.apply_entry(device, "GPU-0[1-1]", SETTINGS)
    assert [instance.free for instance in device.instances] == [True, False, True, True]


@pytest.mark.parametrize(
    ("mode", "uuids"),
    [
        ("hami-core", ["GPU-0[0-0]"]),
        ("mig", ["GPU-0[4-0]"]),
        ("mig", ["GPU-0[0-7]"]),
        ("mig", ["GPU-0[0-x]"]),
        ("mig", ["GPU-0[0-0]", "GPU-0[1-0]"]),
    ],
)
def test_an_instance_that_cannot_be_makes_the_card_unhealthy(mode: str, uuids: list[str]):
    device = a_card(mode)
    for uuid in uuids:
        geometries.apply_entry(device, uuid, SETTINGS)
    assert not device.health
