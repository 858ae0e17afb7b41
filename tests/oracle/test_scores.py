"""Examples of scores and weights (scheduler 5.9, 5.8)."""

import pytest

from oracle.device import DeviceUsage
from oracle.records import RegisteredCard, Request
from oracle.scores import WEIGHTS_KEY, Weights, WeightsError, device_score, node_score, read_weights
from oracle.settings import Settings


def a_device(count: int, used: int, cores: tuple[int, int], memory: tuple[int, int]) -> DeviceUsage:
    card = RegisteredCard("GPU-0", count=count, devcore=cores[0], devmem=memory[0])
    return DeviceUsage(card, used=used, usedcores=cores[1], usedmem=memory[1])


@pytest.mark.parametrize(
    ("device", "requests", "expected"),
    [
        (a_device(10, 3, (100, 40), (16384, 6144)), [Request(1, 4096, 101, 20)], 16.25),
        (a_device(10, 2, (4, 1), (8192, 2048)), [], 7.0),
        (a_device(10, 0, (10, 0), (10000, 0)), [Request(1, 0, 50, 2)], 8.0),
        (a_device(0, 0, (100, 0), (10000, 0)), [Request(1, 0, 50, 2)], 0.0),
    ],
)
def test_a_card_scores_as_in_the_examples(device: DeviceUsage, requests: list[Request], expected: float):
    """B-01; B-03; D-04."""
    assert device_score(device, requests, Weights(), Settings()) == expected


@pytest.mark.parametrize(
    ("weights", "first", "second"),
    [(Weights(1, 1, 1), 16, 15), (Weights(1, 1, 3), 26, 27), (Weights(1, 3, 1), 34, 17)],
)
def test_weights_move_the_scores_as_in_the_example(weights: Weights, first: float, second: float):
    devices = [a_device(10, 1, (100, 90), (100, 10)), a_device(10, 7, (100, 10), (100, 20))]
    scores = [device_score(device, [Request(1, 0, 40, 0)], weights, Settings()) for device in devices]
    assert scores == [first, second]


def test_a_request_counts_one_slot_on_demand():
    """D-03."""
    device = a_device(10, 0, (100, 0), (1000, 0))
    one = Settings(device_score_slots="one")
    assert device_score(device, [Request(4, 500)], Weights(), one) == 6.0


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([a_device(100, 25, (100, 25), (100, 20))], 7.0),
        ([a_device(100, 75, (100, 70), (100, 65))], 21.0),
        ([a_device(100, 0, (100, 0), (100, 0))], 0.0),
        ([a_device(100, 50, (100, 100), (100, 100)), a_device(150, 75, (100, 100), (100, 100))], 25.0),
        ([], 0.0),
    ],
)
def test_a_node_scores_as_in_the_examples(devices: list[DeviceUsage], expected: float):
    assert node_score(devices) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected slot, core, and memory weights"),
        ("slot=1,core=1", "expected slot, core, and memory weights"),
        ("slot=1,core=1,memory", "expected key=value entries"),
        ("slot=1,slot=1,memory=1", 'duplicate "slot" weight'),
        ("slot=a,core=1,memory=1", '"slot" weight must be an integer'),
        (f"slot={2**63},core=1,memory=1", '"slot" weight must be an integer'),
        ("slot=-1,core=1,memory=1", '"slot" weight must not be negative'),
        ("slot=1,core=1,mem=1", 'unknown weight "mem"'),
        ("slot=0,core=0,memory=0", "at least one weight must be positive"),
    ],
)
def test_unreadable_weights_are_explained(text: str, message: str):
    with pytest.raises(WeightsError) as caught:
        read_weights({WEIGHTS_KEY: text})
    assert str(caught.value) == f'invalid {WEIGHTS_KEY} annotation "{text}": {message}'


def test_weights_may_have_white_space_and_any_order():
    assert read_weights({WEIGHTS_KEY: " memory= 7, slot = 2 ,core=0"}) == Weights(2, 0, 7)


def test_cores_of_a_request_are_neither_clamped_nor_multiplied_in_the_score():
    """B-51."""
    device = a_device(10, 0, (100, 0), (1000, 0))
    assert device_score(device, [Request(2, 0, 101, 150)], Weights(), Settings()) == 17.0
