"""Reading cards through NVIDIA's library. Everything here blocks and belongs on a worker thread."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from gpuloom.model.nodecards import MOST_CARDS
from gpuloom.node.errors import CardReadError
from gpuloom.node.nvml import Gpu, MigDevice, normalize_bus_id

BYTES_PER_MIB = 2**20
MOST_INSTANCES = 64
_MOST_MEMORY = 2**50
_MOST_MINORS = 2**20
_BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII | re.IGNORECASE)
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9/-]*", re.ASCII)
_log = structlog.get_logger(__name__)


class NonsenseError(ValueError):
    """The driver told something that cannot be true; NVIDIA's Python library raises other ValueErrors for the same."""


class CardReader:
    """Reads all cards again and again, and remembers those that it has seen."""

    def __init__(self, library: Any, sysfs: Path) -> None:
        self._library = library
        self._sysfs = sysfs
        self._known: dict[str, Gpu] = {}
        self._nameless: tuple[int, ...] = ()
        self._forgets = False

    def forget_absent(self) -> None:
        """Let the next reading leave out cards that the driver does not count, if all others answer."""
        self._forgets = True

    def read(self) -> tuple[Gpu, ...]:
        """Return all cards, sorted by index; one that was read before and does not answer now is unhealthy.

        One in whose slot another answers was exchanged, and is left out, as is a card that never answered and has no
        name, with a line in the log. Raises the library's NVMLError when the driver as a whole fails or no card ever
        answered, and NonsenseError likewise.
        """
        answers, failures = self._ask_cards()
        self._known = {**self._find_absent(answers, failures), **answers}
        # A driver that is loaded again may number cards differently, so an index that fails does not identify a card.
        missing = [replace(gpu, healthy=False) for uuid, gpu in self._known.items() if uuid not in answers]
        if failures and not self._known:
            raise next(reversed(failures.values()))
        self._report_nameless(failures if len(failures) > len(missing) else {})
        return tuple(sorted((*answers.values(), *missing), key=lambda gpu: (gpu.index, gpu.uuid)))

    def _find_absent(self, answers: Mapping[str, Gpu], failures: Mapping[int, Exception]) -> dict[str, Gpu]:
        """Return the cards that were read before, do not answer now, and may come back."""
        forgets, self._forgets = self._forgets and not failures, False
        in_slots = {gpu.pci_bus_id: uuid for uuid, gpu in answers.items()}
        absent = {}
        for uuid, gpu in self._known.items():
            if uuid in answers:
                continue
            if (other := in_slots.get(gpu.pci_bus_id)) is not None:
                _log.warning("card was exchanged, the old one is not offered any more", uuid=uuid, by=other)
            elif forgets:
                _log.warning("card is not there and not offered any more", uuid=uuid)
            else:
                absent[uuid] = gpu
        return absent

    def _ask_cards(self) -> tuple[dict[str, Gpu], dict[int, Exception]]:
        """Return the cards that answer by UUID, and what failed by index."""
        answers: dict[str, Gpu] = {}
        failures: dict[int, Exception] = {}
        for index in range(count_cards(self._library)):
            try:
                gpu = _read_gpu(self._library, self._sysfs, index)
            except (self._library.NVMLError, ValueError) as error:
                if not _is_of_card(self._library, error):
                    raise
                failures[index] = error
                continue
            if gpu.uuid in answers:
                failures[index] = NonsenseError(f"two cards tell the UUID {gpu.uuid}")
                gpu = self._choose(answers[gpu.uuid], gpu)
            answers[gpu.uuid] = gpu
        return answers, failures

    def _choose(self, one: Gpu, other: Gpu) -> Gpu:
        """Return which of two cards with one UUID has it: the one that stands where it was, or else the first."""
        known = self._known.get(one.uuid)
        return other if known and known.pci_bus_id == other.pci_bus_id else one

    def _report_nameless(self, failures: Mapping[int, Exception]) -> None:
        if tuple(failures) != self._nameless:
            for index, error in failures.items():
                _log.error("a card does not answer and is not offered", index=index, error=str(error))
        self._nameless = tuple(failures)


def count_cards(library: Any) -> int:
    """Return how many cards there are.

    Raises the library's NVMLError, and NonsenseError for more than any machine has.
    """
    return check_at_most(int(library.nvmlDeviceGetCount()), MOST_CARDS, "cards")


def find_handle(library: Any, uuid: str) -> Any:
    """Return a card's handle by its UUID.

    Raises the library's NVMLError.
    """
    return library.nvmlDeviceGetHandleByUUID(uuid)


def probe(library: Any, uuid: str) -> None:
    """Ask a card for its name and its memory.

    Raises the library's NVMLError, and NonsenseError.
    """
    handle = find_handle(library, uuid)
    _read_name(library, handle)
    _read_memory_mib(library, handle)


def read_mig_mode(library: Any, handle: Any) -> bool:
    """Tell whether MIG is switched on.

    Raises the library's NVMLError.
    """
    try:
        present = check_at_most(int(library.nvmlDeviceGetMigMode(handle)[0]), 1, "as its MIG mode")
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
    most = check_at_most(int(library.nvmlDeviceGetMaxMigDeviceCount(handle)), MOST_INSTANCES, "MIG instances")
    for place in range(most):
        try:
            device = library.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
        except library.NVMLError as error:
            if error.value != library.NVML_ERROR_NOT_FOUND:
                raise
        else:
            yield device


def list_processes(library: Any, handle: Any) -> Sequence[Any]:
    """Return the programs that compute on a card or an instance.

    Raises the library's NVMLError.
    """
    # The unversioned function raises no NVMLError where a driver before 510 lacks its newest version.
    try:
        return tuple(library.nvmlDeviceGetComputeRunningProcesses_v3(handle))
    except library.NVMLError as error:
        if error.value != library.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
    return tuple(library.nvmlDeviceGetComputeRunningProcesses_v2(handle))


def read_used_bytes(library: Any, handle: Any) -> int:
    """Return how many bytes of a card's memory are in use, as nvidia-smi tells them.

    Raises the library's NVMLError.
    """
    # Version 1 counts what the driver reserves for itself: 615 MiB of an idle H200. Drivers before 510 know no other.
    try:
        return int(library.nvmlDeviceGetMemoryInfo(handle, version=library.nvmlMemory_v2).used)
    except library.NVMLError as error:
        if error.value != library.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
    return int(library.nvmlDeviceGetMemoryInfo(handle).used)


def check_at_most(number: int, most: int, what: str) -> int:
    """Return a number that the driver tells.

    Raises NonsenseError for more than can be; `what` says what it is a number of.
    """
    if number > most:
        raise NonsenseError(f"it tells {number} {what}")
    return number


def check_some(number: int, what: str) -> int:
    """Return a number that the driver tells.

    Raises NonsenseError for none; `what` says what it is a number of.
    """
    if not number:
        raise NonsenseError(f"it tells no {what}")
    return number


def decode_text(text: Any) -> str:
    """Return a text of the library, which some versions give as bytes."""
    return text.decode() if isinstance(text, bytes) else str(text)


def _read_gpu(library: Any, sysfs: Path, index: int) -> Gpu:
    handle = library.nvmlDeviceGetHandleByIndex(index)
    bus_id = decode_text(library.nvmlDeviceGetPciInfo(handle).busId)
    if not _BUS_ID.fullmatch(bus_id):
        raise NonsenseError(f"it tells {bus_id!r} as its PCI bus id")
    return Gpu(
        uuid=_read_uuid(library, handle),
        index=index,
        name=_read_name(library, handle),
        memory_mib=_read_memory_mib(library, handle),
        pci_bus_id=bus_id,
        numa=_read_numa(sysfs, bus_id),
        minor=_read_minor(library, handle),
        can_be_divided=read_mig_mode(library, handle),
        devices=tuple(_read_mig_device(library, device) for device in list_mig_devices(library, handle)),
    )


def _read_mig_device(library: Any, device: Any) -> MigDevice:
    return MigDevice(
        uuid=_read_uuid(library, device),
        # The name is that of the card, then that of the instance: NVIDIA A100-SXM4-40GB MIG 1g.5gb.
        profile=_read_name(library, device).rpartition(" ")[2],
        memory_mib=_read_bytes(library, device) // BYTES_PER_MIB,
        gpu_instance_id=int(library.nvmlDeviceGetGpuInstanceId(device)),
        compute_instance_id=int(library.nvmlDeviceGetComputeInstanceId(device)),
    )


def _read_uuid(library: Any, handle: Any) -> str:
    uuid = decode_text(library.nvmlDeviceGetUUID(handle))
    if not _UUID.fullmatch(uuid):
        raise NonsenseError(f"it tells {uuid!r} as its UUID")
    return uuid


def _read_name(library: Any, handle: Any) -> str:
    name = decode_text(library.nvmlDeviceGetName(handle))
    if not name or not name.isprintable():
        raise NonsenseError(f"it tells {name!r} as its name")
    return name


def _read_bytes(library: Any, handle: Any) -> int:
    return check_at_most(int(library.nvmlDeviceGetMemoryInfo(handle).total), _MOST_MEMORY, "bytes of memory")


def _read_memory_mib(library: Any, handle: Any) -> int | None:
    try:
        return _read_bytes(library, handle) // BYTES_PER_MIB
    except library.NVMLError as error:
        if error.value == library.NVML_ERROR_NOT_SUPPORTED:
            return None
        raise


def _read_minor(library: Any, handle: Any) -> int | None:
    try:
        return check_at_most(int(library.nvmlDeviceGetMinorNumber(handle)), _MOST_MINORS, "as the number of its file")
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
    return getattr(error, "value", None) not in {
        library.NVML_ERROR_UNINITIALIZED,
        library.NVML_ERROR_DRIVER_NOT_LOADED,
        library.NVML_ERROR_LIBRARY_NOT_FOUND,
    }


def refuse(action: str, error: Exception) -> CardReadError:
    """Return an error that says what the driver refused."""
    return CardReadError(f"the NVIDIA driver cannot {action}: {error}")
