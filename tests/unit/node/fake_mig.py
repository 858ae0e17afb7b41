"""The MIG functions of NVIDIA's library, over one card that is divided as the tests say."""

import ctypes
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from unit.node.fake_pynvml import FakeCard, FakeNvml, NVMLError

PROFILES = {
    0: SimpleNamespace(
        id=19, name=b"MIG 1g.5gb", memorySizeMB=4864, multiprocessorCount=14, instanceCount=7, sliceCount=1, places=
        [(start, 1) for start in range(7)]
    ),
    2: SimpleNamespace(
        id=9, name="MIG 3g.20gb", memorySizeMB=20096, multiprocessorCount=42, instanceCount=2, sliceCount=3, places=
        [(0, 4), (4, 4)]
    ),
}  # fmt: skip
COMPUTE = {
    0: SimpleNamespace(id=0, sliceCount=1, instanceCount=7),
    2: SimpleNamespace(id=2, sliceCount=3, instanceCount=2),
}


@dataclass(eq=False)
class FakeInstance:
    """A GPU instance, and whether it has its compute instance."""

    id: int
    profile: int
    start: int
    size: int
    is_complete: bool = False
    processes: list[int] = field(default_factory=list)


class FakeMigNvml(FakeNvml):
    """The library with one divisible card, ``GPU-a``; ``needs_reset`` lets switching MIG on wait for a reset."""

    NVML_GPU_INSTANCE_PROFILE_COUNT = 3
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 3
    NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0
    c_nvmlGpuInstance_t = ctypes.py_object  # noqa: N815
    c_nvmlComputeInstance_t = ctypes.py_object  # noqa: N815

    class c_nvmlGpuInstancePlacement_t(ctypes.Structure):  # noqa: N801
        _fields_ = (("start", ctypes.c_uint), ("size", ctypes.c_uint))

    def __init__(self) -> None:
        super().__init__(FakeCard("GPU-a", mig_mode=1))
        self.instances: list[FakeInstance] = []
        self.needs_reset = False
        self.processes: list[int] = []

    def nvmlDeviceSetMigMode(self, card: FakeCard, mode: int) -> int:  # noqa: N802
        if not self.needs_reset:
            card.mig_mode = mode
        return 0

    def nvmlDeviceGetGpuInstanceProfileInfo(self, card: FakeCard, number: int) -> Any:  # noqa: N802
        self._check("nvmlDeviceGetGpuInstanceProfileInfo", card)
        if number not in PROFILES:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return PROFILES[number]

    def nvmlDeviceGetGpuInstancePossiblePlacements(  # noqa: N802
        self, card: FakeCard, profile: int, array: Any, count: Any
    ) -> None:
        assert card
        (places,) = (info.places for info in PROFILES.values() if info.id == profile)
        count._obj.value = len(places)
        for place, (start, size) in enumerate(places if array is not None else ()):
            array[place].start, array[place].size = start, size

    def nvmlDeviceGetGpuInstances(self, card: FakeCard, profile: int, array: Any, count: Any) -> None:  # noqa: N802
        assert card
        found = [instance for instance in self.instances if instance.profile == profile]
        count._obj.value = len(found)
        for place, instance in enumerate(found):
            array[place] = instance

    def nvmlGpuInstanceGetInfo(self, instance: FakeInstance) -> Any:  # noqa: N802
        return SimpleNamespace(id=instance.id, placement=SimpleNamespace(start=instance.start, size=instance.size))

    def nvmlDeviceGetGpuInstanceById(self, card: FakeCard, number: int) -> FakeInstance:  # noqa: N802
        assert card
        for instance in self.instances:
            if instance.id == number:
                return instance
        raise NVMLError(self.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, card: FakeCard, profile: int, place: Any) -> Any:  # noqa: N802
        self._check("nvmlDeviceCreateGpuInstanceWithPlacement", card)
        instance = FakeInstance(len(self.instances) + 1, profile, place._obj.start, place._obj.size)
        self.instances.append(instance)
        return instance

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, instance: Any, number: int, engine: int) -> Any:  # noqa: N802
        assert (instance, engine) == (instance, 0)
        if number not in COMPUTE:
            raise NVMLError(self.NVML_ERROR_INVALID_ARGUMENT)
        return COMPUTE[number]

    def nvmlGpuInstanceCreateComputeInstance(self, instance: FakeInstance, profile: int) -> None:  # noqa: N802
        self._check("nvmlGpuInstanceCreateComputeInstance")
        assert COMPUTE[profile].sliceCount == {19: 1, 9: 3}[instance.profile]
        instance.is_complete = True

    def nvmlGpuInstanceGetComputeInstances(  # noqa: N802
        self, instance: FakeInstance, profile: int, array: Any, count: Any
    ) -> None:
        mine = instance.is_complete and COMPUTE[profile].sliceCount == {19: 1, 9: 3}[instance.profile]
        count._obj.value = int(mine)
        if mine:
            array[0] = instance

    def nvmlComputeInstanceDestroy(self, instance: FakeInstance) -> None:  # noqa: N802
        self._check("nvmlComputeInstanceDestroy")
        instance.is_complete = False

    def nvmlGpuInstanceDestroy(self, instance: FakeInstance) -> None:  # noqa: N802
        assert not instance.is_complete
        self.instances.remove(instance)

    def nvmlDeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:  # noqa: N802
        assert card
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, card: FakeCard, place: int) -> Any:  # noqa: N802
        assert card
        complete = [instance for instance in self.instances if instance.is_complete]
        if place >= len(complete):
            raise NVMLError(self.NVML_ERROR_NOT_FOUND)
        found = complete[place]
        (profile,) = (info for info in PROFILES.values() if info.id == found.profile)
        kind = profile.name.decode() if isinstance(profile.name, bytes) else profile.name
        return SimpleNamespace(
            uuid=f"MIG-{found.id}",
            name=f"{card.name} {kind}",
            memory=profile.memorySizeMB * 2**20,
            errors={},
            instance=found,
        )

    def nvmlDeviceGetGpuInstanceId(self, device: Any) -> int:  # noqa: N802
        return int(device.instance.id)

    def nvmlDeviceGetComputeInstanceId(self, device: Any) -> int:  # noqa: N802
        assert device
        return 0

    def nvmlDeviceGetComputeRunningProcesses(self, device: Any) -> list[int]:  # noqa: N802
        return self.processes if isinstance(device, FakeCard) else list(device.instance.processes)
