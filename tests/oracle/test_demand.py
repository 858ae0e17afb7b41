"""Examples of request generation (scheduler 3)."""

from typing import Any

import pytest

from oracle.demand import generate_pod_requests, generate_request
from oracle.records import Request
from oracle.samples import a_pod, a_request
from oracle.settings import DeviceConfig, Settings

FACTOR_2 = DeviceConfig(memory_factor=2)
DEFAULT_512 = DeviceConfig(default_memory_mib=512)


@pytest.mark.parametrize(
    ("limits", "config", "expected"),
    [
        ({"gpu": 1}, DeviceConfig(), (1, 0, 100, 0)),
        ({"gpu": 2, "gpumem": 4096}, DeviceConfig(), (2, 4096, 101, 0)),
        ({"gpu": 1, "gpumem-percentage": 50}, DeviceConfig(), (1, 0, 50, 0)),
        ({"gpu": 1, "gpumem-percentage": 150}, DeviceConfig(), (1, 0, 100, 0)),
        ({"gpu": 1, "gpumem-percentage": 101}, DeviceConfig(), (1, 0, 100, 0)),
        ({"gpu": 1, "gpumem-percentage": 2**32 + 50}, DeviceConfig(), (1, 0, 100, 0)),
        ({"gpu": 1, "gpumem-percentage": 0}, DeviceConfig(), (1, 0, 100, 0)),
        ({"gpu": 1, "gpumem-percentage": "-1"}, DeviceConfig(), (1, 0, 100, 0)),
        ({"gpu": 1, "gpumem": 2000, "gpumem-percentage": 0}, DeviceConfig(), (1, 2000, 101, 0)),
        ({"gpu": 1, "gpucores": 50}, DeviceConfig(), (1, 0, 100, 50)),
        ({"gpu": 1, "gpumem": 1024}, FACTOR_2, (1, 2048, 101, 0)),
        ({"gpu": 1}, DEFAULT_512, (1, 512, 101, 0)),
        ({"gpu": 1, "gpumem-percentage": 0}, DEFAULT_512, (1, 512, 101, 0)),
        ({"gpu": 1, "gpumem": 0}, DEFAULT_512, (1, 512, 101, 0)),
    ],
)
def test_limits_become_the_request_of_the_table(
    limits: dict[str, Any], config: DeviceConfig, expected: tuple[int, int, int, int]
):
    assert generate_request(a_request(limits), Settings(devices=config)) == Request(*expected)


@pytest.mark.parametrize(
    ("limits", "config"),
    [
        ({"gpu": 1, "gpumem": "16Gi"}, DeviceConfig()),
        ({"gpu": 1, "gpumem": "16.0Gi"}, DeviceConfig()),
        ({"gpu": 1, "gpumem": "1Gi"}, FACTOR_2),
        ({"gpu": 1, "gpumem": "-1"}, DeviceConfig()),
        ({"gpu": 0}, DeviceConfig()),
        ({"gpu": "1.5"}, DeviceConfig()),
        ({"gpumem": 1000}, DeviceConfig()),
        ({"gpu": 1, "gpucores": "-10"}, DeviceConfig()),
        ({"gpu": 2**32 + 1}, DeviceConfig()),
    ],
)
def test_unusable_amounts_leave_no_request(limits: dict[str, Any], config: DeviceConfig):
    assert generate_request(a_request(limits), Settings(devices=config)) is None


@pytest.mark.parametrize("limits", [{"gpu": 2**32 + 1}, {"gpu": 1, "gpucores": "-10"}])
def test_amounts_that_hami_misreads_leave_no_request_even_without_strict_quantities(limits: dict[str, Any]):
    assert generate_request(a_request(limits), Settings(strict_quantities=False)) is None


def test_requests_count_where_limits_are_silent():
    container = a_request({"gpucores": 30}, requests={"gpu": 2, "gpucores": 50})
    assert generate_request(container, Settings()) == Request(2, 0, 100, 30)


def test_every_container_has_an_entry_init_containers_first():
    requests = generate_pod_requests(a_pod({}, {"gpu": 1}, init=[{"gpu": 2}]), Settings())
    assert requests == [Request(2, 0, 100, 0), None, Request(1, 0, 100, 0)]
