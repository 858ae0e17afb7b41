"""An object with the functions of NVIDIA's library, over cards that tests describe."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """The library's error; it is told apart by its value."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


@dataclass
class FakeCard:
    """A card; ``errors`` maps names of functions to error values, as long as they are there."""

    uuid: str
    name: str = "NVIDIA A40"
    memory: int = 46068 * 2**20
    bus_id: str = "00000000:3B:00.0"
    minor: int = 0
    events: int = 11
    ancestors: dict[str, int] = field(default_factory=dict)
    links: list[tuple[str, int]] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    mig_mode: int | None = None


class FakeNvml:
    """Functions and constants of ``pynvml``, as far as gpuloom uses them."""

    NVMLError = NVMLError
    NVML_ERROR_UNINITIALIZED = 1
    NVML_ERROR_INVALID_ARGUMENT = 2
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_ERROR_NOT_FOUND = 6
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_TIMEOUT = 10
    NVML_ERROR_LIBRARY_NOT_FOUND = 12
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_UNKNOWN = 999
    NVML_FEATURE_ENABLED = 1
    NVML_DEVICE_MIG_ENABLE = 1
    NVML_NVLINK_MAX_LINKS = 18
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    nvmlEventTypeSingleBitEccError = 1  # noqa: N815
    nvmlEventTypeDoubleBitEccError = 2  # noqa: N815
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self, *cards: FakeCard) -> None:
        self.cards = list(cards)
        self.errors: dict[str, int] = {}
        self.initialised = 0
        self.events: list[Any] = []
        self.registered: list[tuple[str, int]] = []
        self.freed = 0

    def _check(self, name: str, card: FakeCard | None = None) -> None:
        for errors in (self.errors, card.errors if card else {}):
            if name in errors:
                raise NVMLError(errors[name])

    def nvmlInit(self) -> None:  # noqa: N802
        self._check("nvmlInit")
        self.initialised += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        self._check("nvmlDeviceGetCount")
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeCard:  # noqa: N802
        self._check("nvmlDeviceGetHandleByIndex", self.cards[index])
        return self.cards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeCard:  # noqa: N802
        for card in self.cards:
            if card.uuid == uuid:
                self._check("nvmlDeviceGetHandleByUUID", card)
                return card
        raise NVMLError(self.NVML_ERROR_NOT_FOUND)

    def nvmlDeviceGetUUID(self, card: FakeCard) -> str:  # noqa: N802
        self._check("nvmlDeviceGetUUID", card)
        return card.uuid

    def nvmlDeviceGetName(self, card: FakeCard) -> str:  # noqa: N802
        self._check("nvmlDeviceGetName", card)
        return card.name

    def nvmlDeviceGetMemoryInfo(self, card: FakeCard) -> Any:  # noqa: N802
        self._check("nvmlDeviceGetMemoryInfo", card)
        return SimpleNamespace(total=card.memory)

    def nvmlDeviceGetPciInfo(self, card: FakeCard) -> Any:  # noqa: N802
        return SimpleNamespace(busId=card.bus_id.encode())

    def nvmlDeviceGetMinorNumber(self, card: FakeCard) -> int:  # noqa: N802
        self._check("nvmlDeviceGetMinorNumber", card)
        return card.minor

    def nvmlDeviceGetMigMode(self, card: FakeCard) -> list[int]:  # noqa: N802
        self._check("nvmlDeviceGetMigMode", card)
        if card.mig_mode is None:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return [card.mig_mode, card.mig_mode]

    def nvmlDeviceGetMaxMigDeviceCount(self, card: FakeCard) -> int:  # noqa: N802
        assert card
        return 0

    def nvmlDeviceGetTopologyCommonAncestor(self, card: FakeCard, other: FakeCard) -> int:  # noqa: N802
        return card.ancestors[other.uuid]

    def nvmlDeviceGetNvLinkState(self, card: FakeCard, link: int) -> int:  # noqa: N802
        self._check("nvmlDeviceGetNvLinkState", card)
        if link >= len(card.links):
            raise NVMLError(self.NVML_ERROR_INVALID_ARGUMENT)
        return self.NVML_FEATURE_ENABLED if card.links[link][0] else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, card: FakeCard, link: int) -> Any:  # noqa: N802
        return SimpleNamespace(busId=card.links[link][0])

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, card: FakeCard, link: int) -> int:  # noqa: N802
        self._check("nvmlDeviceGetNvLinkRemoteDeviceType", card)
        return card.links[link][1]

    def nvmlEventSetCreate(self) -> object:  # noqa: N802
        self._check("nvmlEventSetCreate")
        return object()

    def nvmlEventSetFree(self, events: object) -> None:  # noqa: N802
        assert events is not None
        self.freed += 1

    def nvmlDeviceGetSupportedEventTypes(self, card: FakeCard) -> int:  # noqa: N802
        self._check("nvmlDeviceGetSupportedEventTypes", card)
        return card.events

    def nvmlDeviceRegisterEvents(self, card: FakeCard, types: int, events: object) -> None:  # noqa: N802
        assert events is not None
        self._check("nvmlDeviceRegisterEvents", card)
        self.registered.append((card.uuid, types))

    def nvmlEventSetWait(self, events: object, timeout_ms: int) -> Any:  # noqa: N802
        assert events is not None
        assert timeout_ms == 5000
        self._check("nvmlEventSetWait")
        if not self.events:
            raise NVMLError(self.NVML_ERROR_TIMEOUT)
        card, kind, data, *instance = self.events.pop(0)
        gpu_instance, compute_instance = instance or (0xFFFFFFFF, 0xFFFFFFFF)
        return SimpleNamespace(
            device=card,
            eventType=kind,
            eventData=data,
            gpuInstanceId=gpu_instance,
            computeInstanceId=compute_instance,
        )
