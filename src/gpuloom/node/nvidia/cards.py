"""Reading cards through NVIDIA's library. Everything here blocks and belongs on a worker thread."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuloom.node.errors import CardReadError
from gpuloom.node.nvml import Gpu, MigDevice, normalize_bus_id

BYTES_PER_MIB = 2**20


def read_gpus(library: Any, sysfs: Path, known: dict[str, Gpu]) -> tuple[Gpu, ...]:
    """Return all cards, sorted by index; one that was read before and does not answer now is unhealthy.

    `known` holds the last answer by UUID and is brought up to date. Raises the library's NVMLError when the driver as a
    whole fails, and for a card that never answered.
    """
    answers: dict[str, Gpu] = {}
    failures = []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            gpu = _read_gpu(library, sysfs, index)
            answers[gpu.uuid] = gpu
        except library.NVMLError as error:
            if not _is_of_card(library, error):
                raise
            failures.append(error)
    known.update(answers)
    # A driver that is loaded again may number cards differently, so an index that fails does not identify a card.
    missing = [replace(gpu, healthy=False) for uuid, gpu in known.items() if uuid not in answers]
    if len(failures) > len(missing):
        raise failures[-1]
    return tuple(sorted((*answers.values(), *missing), key=lambda gpu: (gpu.index, gpu.uuid)))


def find_handle(library: Any, uuid: str) -> Any:
    """Return a card's handle by its UUID.

    Raises the library's NVMLError.
    """
    return library.nvmlDeviceGetHandleByUUID(uuid)


def probe(library: Any, uuid: str) -> None:
    """Ask a card for its name and its memory.

    Raises the library's NVMLError.
    """
    handle = find_handle(library, uuid)
    library.nvmlDeviceGetName(handle)
    _read_memory_mib(library, handle)


def read_mig_mode(library: Any, handle: Any) -> bool:
    """Tell whether MIG is switched on.

    Raises the library's NVMLError.
    """
    try:
        present, _ = library.nvmlDeviceGetMigMode(handle)
    except library.NVMLError as error:
        if error.value == library.NVML_ERROR_NOT_SUPPORTED:
            return False
        raise
    return bool(present == library.NVML_DEVICE_MIG_ENABLE)


def list_mig_devices(library: Any, handle: Any) -> Iterator[Any]:
    """Return the handles of the instances on a card, none if MIG is off.

    Raises the library's NVMLError.
    """
    if not read_mig_mode(library, handle):
        return
    for place in range(library.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
        except library.NVMLError as error:
            if error.value != library.NVML_ERROR_NOT_FOUND:
                raise
        else:
            yield device


def decode_text(text: Any) -> str:
    """Return a text of the library, which some versions give as bytes."""
    return text.decode() if isinstance(text, bytes) else str(text)


def _read_gpu(library: Any, sysfs: Path, index: int) -> Gpu:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    bus_id = decode_text(library.nvmlDeviceGetPciInfo(handle).busId)
    return Gpu(
        uuid=decode_text(library.nvmlDeviceGetUUID(handle)),
        index=index,
        name=decode_text(library.nvmlDeviceGetName(handle)),
        memory_mib=_read_memory_mib(library, handle),
        pci_bus_id=bus_id,
        numa=_read_numa(sysfs, bus_id),
        minor=_read_minor(library, handle),
        can_be_divided=read_mig_mode(library, handle),
        devices=tuple(_read_mig_device(library, device) for device in list_mig_devices(library, handle)),
    )


def _read_mig_device(library: Any, device: Any) -> MigDevice:
    return MigDevice(
        uuid=decode_text(library.nvmlDeviceGetUUID(device)),
        # The name is that of the card, then that of the instance: NVIDIA A100-SXM4-40GB MIG 1g.5gb.
        profile=decode_text(library.nvmlDeviceGetName(device)).rpartition(" ")[2],
        memory_mib=int(library.nvmlDeviceGetMemoryInfo(device).total) // BYTES_PER_MIB,
        gpu_instance_id=int(library.nvmlDeviceGetGpuInstanceId(device)),
        compute_instance_id=int(library.nvmlDeviceGetComputeInstanceId(device)),
    )


def _read_memory_mib(library: Any, handle: Any) -> int | None:
    try:
        return int(library.nvmlDeviceGetMemoryInfo(handle).total) // BYTES_PER_MIB
    except library.NVMLError as error:
        if error.value == library.NVML_ERROR_NOT_SUPPORTED:
            return None
        raise


def _read_minor(library: Any, handle: Any) -> int | None:
    try:
        return int(library.nvmlDeviceGetMinorNumber(handle))
    except library.NVMLError as error:
        if error.value == library.NVML_ERROR_NOT_SUPPORTED:
            return None
        raise


def _read_numa(sysfs: Path, bus_id: str) -> int:
    """Return a card's NUMA node, 0 if the machine has none or does not say."""
    path = sysfs / "bus/pci/devices" / normalize_bus_id(bus_id) / "numa_node"
    try:
        return max(int(path.read_text()), 0)
    except (OSError, ValueError):
        return 0


def _is_of_card(library: Any, error: Any) -> bool:
    """Whether an error says something about one card rather than about the driver."""
    return error.value not in {
        library.NVML_ERROR_UNINITIALIZED,
        library.NVML_ERROR_DRIVER_NOT_LOADED,
        library.NVML_ERROR_LIBRARY_NOT_FOUND,
    }


def refuse(action: str, error: Exception) -> CardReadError:
    """Return an error that says what the driver refused."""
    return CardReadError(f"the NVIDIA driver cannot {action}: {error}")
