"""Examples of what a pod's device lists come to (scheduler 4.5)."""

from oracle.arithmetic import collapse
from oracle.records import AllocatedDevice, ContainerKind

INIT, SIDECAR, REGULAR = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.REGULAR


def a_share(memory_mib: int, cores: int, uuid: str = "GPU-0") -> tuple[AllocatedDevice, ...]:
    return (AllocatedDevice(uuid, memory_mib, cores),)


def test_regular_containers_add_up():
    assert collapse([a_share(100, 10)] * 3, [REGULAR] * 3) == (AllocatedDevice("GPU-0", 300, 30, slots=3),)


def test_each_amount_has_its_own_maximum_over_init_and_regular_containers():
    devices = [a_share(500, 5), a_share(100, 90), a_share(200, 10), a_share(200, 10)]
    assert collapse(devices, [INIT, INIT, REGULAR, REGULAR]) == (AllocatedDevice("GPU-0", 500, 90, slots=2),)


def test_ended_init_containers_count_nothing():
    devices = [a_share(500, 50), a_share(900, 50, "GPU-1"), a_share(200, 10)]
    usage = collapse(devices, [INIT, INIT, REGULAR], init_released=True)
    assert usage == (AllocatedDevice("GPU-0", 200, 10, slots=1),)


def test_sidecars_run_beside_everything():
    """B-36."""
    devices = [a_share(300, 20), a_share(500, 5), a_share(200, 10)]
    assert collapse(devices, [SIDECAR, INIT, REGULAR]) == (AllocatedDevice("GPU-0", 800, 30, slots=2),)


def test_sidecars_still_count_after_the_init_containers_ended():
    devices = [a_share(300, 20), a_share(500, 5), a_share(200, 10)]
    usage = collapse(devices, [SIDECAR, INIT, REGULAR], init_released=True)
    assert usage == (AllocatedDevice("GPU-0", 500, 30, slots=2),)


def test_cards_are_sorted_by_uuid():
    usage = collapse([a_share(1, 1, "GPU-b"), a_share(2, 2, "GPU-a")], [REGULAR, REGULAR])
    assert [device.uuid for device in usage] == ["GPU-a", "GPU-b"]


def test_entries_beyond_the_containers_are_regular():
    assert collapse([a_share(1, 1), a_share(2, 2)], [REGULAR]) == (AllocatedDevice("GPU-0", 3, 3, slots=2),)
