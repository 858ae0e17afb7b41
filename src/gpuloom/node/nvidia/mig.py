"""Dividing cards through NVIDIA's library (device plugin 12.4). Everything in `_Calls` blocks; it runs on a worker."""

from collections.abc import Callable, Iterator
from ctypes import byref, c_uint
from typing import Any, Protocol, TypeVar

from gpuloom.model.mig import MigPlacement, MigRuntime
from gpuloom.node.errors import CardReadError, HalfMadeError
from gpuloom.node.nvidia.cards import (
    MOST_INSTANCES,
    check_at_most,
    check_some,
    decode_text,
    find_handle,
    list_mig_devices,
    list_processes,
    read_mig_mode,
)
from gpuloom.node.nvml import Part, PartProfile

_T = TypeVar("_T")


class NvmlCall(Protocol):
    """Runs a call of the library on a worker thread, with a deadline; `action` names it in errors."""

    async def __call__(self, action: str, call: Callable[[], _T]) -> _T:
        """Raise CardReadError when the driver refuses or does not answer."""


class NvidiaMig:
    """See :class:`~gpuloom.node.nvml.MigNvml`."""

    def __init__(self, library: Any, ask: NvmlCall) -> None:
        self._calls = _Calls(library)
        self._ask = ask

    async def read_profiles(self, uuid: str) -> tuple[PartProfile, ...]:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        return await self._ask(f"tell the MIG profiles of card {uuid}", lambda: self._calls.read_profiles(uuid))

    async def enable(self, uuid: str) -> None:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        await self._ask(f"switch MIG on for card {uuid}", lambda: self._calls.enable(uuid))

    async def disable(self, uuid: str) -> None:
        """Let a card be whole again; one that waits for a reset to be divided waits no more.

        Raises CardReadError.
        """
        await self._ask(f"switch MIG off for card {uuid}", lambda: self._calls.disable(uuid))

    async def list_parts(self, uuid: str) -> tuple[Part, ...]:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        return await self._ask(f"list the MIG instances of card {uuid}", lambda: self._calls.list_parts(uuid))

    async def create_part(self, uuid: str, profile: str, placement: MigPlacement) -> MigRuntime:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        return await self._ask(
            f"make a MIG instance {profile} at {placement.start} of card {uuid}",
            lambda: self._calls.create_part(uuid, profile, placement),
        )

    async def destroy_part(self, uuid: str, gpu_instance_id: int) -> None:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        await self._ask(
            f"destroy MIG instance {gpu_instance_id} of card {uuid}",
            lambda: self._calls.destroy_part(uuid, gpu_instance_id),
        )

    async def is_busy(self, uuid: str) -> bool:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        return await self._ask(f"tell who computes on card {uuid}", lambda: self._calls.is_busy(uuid))

    async def is_part_busy(self, uuid: str, gpu_instance_id: int) -> bool:
        """See :class:`~gpuloom.node.nvml.MigNvml`."""
        return await self._ask(
            f"tell who computes on MIG instance {gpu_instance_id} of card {uuid}",
            lambda: self._calls.is_part_busy(uuid, gpu_instance_id),
        )


class _Calls:
    """The same as plain functions; they raise the library's NVMLError, and CardReadError for what it does not know."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def read_profiles(self, uuid: str) -> tuple[PartProfile, ...]:
        card = find_handle(self._library, uuid)
        return tuple(self._to_profile(card, info) for info in self._list_infos(card))

    def enable(self, uuid: str) -> None:
        library = self._library
        card = find_handle(library, uuid)
        if read_mig_mode(library, card):
            return
        library.nvmlDeviceSetMigMode(card, library.NVML_DEVICE_MIG_ENABLE)
        if not read_mig_mode(library, card):
            raise CardReadError(
                f"card {uuid} will be divisible (MIG) only after a reset: stop what uses it, then run "
                f"nvidia-smi --gpu-reset -i {uuid} or restart the node"
            )

    def disable(self, uuid: str) -> None:
        library = self._library
        card = find_handle(library, uuid)
        library.nvmlDeviceSetMigMode(card, library.NVML_DEVICE_MIG_DISABLE)
        if any(library.nvmlDeviceGetMigMode(card)):
            raise CardReadError(
                f"card {uuid} will be whole only after a reset: stop what uses it, then run "
                f"nvidia-smi --gpu-reset -i {uuid} or restart the node"
            )

    def list_parts(self, uuid: str) -> tuple[Part, ...]:
        card = find_handle(self._library, uuid)
        if not read_mig_mode(self._library, card):
            return ()
        runtimes = self._read_runtimes(card)
        return tuple(
            self._to_part(name, self._library.nvmlGpuInstanceGetInfo(instance), runtimes)
            for name, instance in self._list_instances(card)
        )

    def create_part(self, uuid: str, profile: str, placement: MigPlacement) -> MigRuntime:
        library = self._library
        card = find_handle(library, uuid)
        info = self._find_info(card, uuid, profile)
        place = library.c_nvmlGpuInstancePlacement_t(placement.start, placement.size)
        instance = library.nvmlDeviceCreateGpuInstanceWithPlacement(card, info.id, byref(place))
        try:
            return self._complete(card, instance, info.sliceCount)
        except Exception as error:
            try:
                self._destroy(instance)
            except Exception as left:
                raise HalfMadeError(
                    f"MIG instance {profile} at {placement.start} of card {uuid} cannot be finished ({error}), nor "
                    f"destroyed again ({left})"
                ) from left
            raise

    def destroy_part(self, uuid: str, gpu_instance_id: int) -> None:
        library = self._library
        card = find_handle(library, uuid)
        try:
            instance = library.nvmlDeviceGetGpuInstanceById(card, gpu_instance_id)
        except library.NVMLError as error:
            if error.value == library.NVML_ERROR_NOT_FOUND:
                return
            raise
        self._destroy(instance)

    def is_busy(self, uuid: str) -> bool:
        library = self._library
        card = find_handle(library, uuid)
        handles = [card, *list_mig_devices(library, card)]
        return any(list_processes(library, handle) for handle in handles)

    def is_part_busy(self, uuid: str, gpu_instance_id: int) -> bool:
        library = self._library
        return any(
            list_processes(library, device)
            for device in list_mig_devices(library, find_handle(library, uuid))
            if library.nvmlDeviceGetGpuInstanceId(device) == gpu_instance_id
        )

    def _complete(self, card: Any, instance: Any, slices: int) -> MigRuntime:
        """Make the compute instance over all of a GPU instance."""
        library = self._library
        kinds = [info for info in self._list_compute_infos(instance) if info.sliceCount == slices]
        if not kinds:
            raise CardReadError(f"the NVIDIA driver has no compute instance of {slices} slices")
        library.nvmlGpuInstanceCreateComputeInstance(instance, kinds[0].id)
        wanted = library.nvmlGpuInstanceGetInfo(instance).id
        runtime = self._read_runtimes(card).get(wanted)
        if runtime is None:
            raise CardReadError(f"the NVIDIA driver does not show MIG instance {wanted} that it has just made")
        return runtime

    def _destroy(self, instance: Any) -> None:
        library = self._library
        for info in self._list_compute_infos(instance):
            array, count = (library.c_nvmlComputeInstance_t * _read_most(info))(), c_uint()
            library.nvmlGpuInstanceGetComputeInstances(instance, info.id, array, byref(count))
            for place in range(count.value):
                library.nvmlComputeInstanceDestroy(array[place])
        library.nvmlGpuInstanceDestroy(instance)

    def _list_infos(self, card: Any) -> Iterator[Any]:
        library = self._library
        for number in range(library.NVML_GPU_INSTANCE_PROFILE_COUNT):
            try:
                info = library.nvmlDeviceGetGpuInstanceProfileInfo(card, number)
            except library.NVMLError as error:
                if not _is_absent(library, error):
                    raise
            else:
                yield info

    def _list_compute_infos(self, instance: Any) -> Iterator[Any]:
        library = self._library
        for number in range(library.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            try:
                info = library.nvmlGpuInstanceGetComputeInstanceProfileInfo(
                    instance, number, library.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
                )
            except library.NVMLError as error:
                if not _is_absent(library, error):
                    raise
            else:
                yield info

    def _find_info(self, card: Any, uuid: str, profile: str) -> Any:
        for info in self._list_infos(card):
            if _name(info) == profile:
                return info
        raise CardReadError(f"card {uuid} has no MIG profile {profile}")

    def _list_instances(self, card: Any) -> Iterator[tuple[str, Any]]:
        library = self._library
        for info in self._list_infos(card):
            array, count = (library.c_nvmlGpuInstance_t * _read_most(info))(), c_uint()
            library.nvmlDeviceGetGpuInstances(card, info.id, array, byref(count))
            for place in range(count.value):
                yield _name(info), array[place]

    def _read_runtimes(self, card: Any) -> dict[int, MigRuntime]:
        """Name the whole instances by the id of their GPU instance."""
        library = self._library
        runtimes = {}
        for device in list_mig_devices(library, card):
            gpu_instance = int(library.nvmlDeviceGetGpuInstanceId(device))
            compute_instance = int(library.nvmlDeviceGetComputeInstanceId(device))
            uuid = decode_text(library.nvmlDeviceGetUUID(device))
            runtimes[gpu_instance] = MigRuntime(uuid, gpu_instance, compute_instance)
        return runtimes

    def _to_profile(self, card: Any, info: Any) -> PartProfile:
        return PartProfile(
            name=_name(info),
            memory_mib=int(info.memorySizeMB),
            multiprocessors=check_some(int(info.multiprocessorCount), "multiprocessors of a MIG profile"),
            most=_read_most(info),
            placements=self._read_placements(card, info.id),
        )

    def _read_placements(self, card: Any, profile_id: int) -> tuple[MigPlacement, ...]:
        library = self._library
        count = c_uint()
        library.nvmlDeviceGetGpuInstancePossiblePlacements(card, profile_id, None, byref(count))
        most = check_at_most(count.value, MOST_INSTANCES, "places for a MIG instance")
        array = (library.c_nvmlGpuInstancePlacement_t * most)()
        library.nvmlDeviceGetGpuInstancePossiblePlacements(card, profile_id, array, byref(count))
        return tuple(
            MigPlacement(int(array[place].start), check_some(int(array[place].size), "slices of a MIG profile"))
            for place in range(most)
        )

    def _to_part(self, profile: str, info: Any, runtimes: dict[int, MigRuntime]) -> Part:
        place = info.placement
        return Part(int(info.id), profile, MigPlacement(int(place.start), int(place.size)), runtimes.get(int(info.id)))


def _is_absent(library: Any, error: Any) -> bool:
    """Whether an error says that a card has no such profile."""
    return error.value in {library.NVML_ERROR_NOT_SUPPORTED, library.NVML_ERROR_INVALID_ARGUMENT}


def _read_most(info: Any) -> int:
    """Return how many instances of a profile a card has at most."""
    return check_at_most(int(info.instanceCount), MOST_INSTANCES, "MIG instances")


def _name(info: Any) -> str:
    """Give a profile's name as the wire has it: without the driver's ``MIG``."""
    return decode_text(info.name).removeprefix("MIG ")
