"""What the stub of the driver knows, written as the JSON file that its libraries read at every call."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class StubLink:
    """An NVLink to a PCI bus id; ``type`` 2 is a switch, ``state`` 0 a link that is down."""

    remote: str
    type: int = 0
    state: int = 1


@dataclass
class StubProcess:
    """A program on a card, or on an instance of it; ``used_bytes`` None is not told."""

    pid: int
    used_bytes: int | None = None
    gpu_instance: int | None = None


@dataclass
class StubInstance:
    """A MIG instance that is there from the start; ``profile`` is the id of its profile."""

    id: int
    profile: int
    start: int
    has_compute: bool = True


@dataclass
class StubCard:
    """A card as the libraries describe it; None is what it does not tell.

    ``used_bytes`` are those of programs, ``reserved_bytes`` what the driver keeps for itself.
    """

    uuid: str
    name: str = "NVIDIA A40"
    memory_bytes: int | None = 46068 * 2**20
    used_bytes: int = 0
    reserved_bytes: int = 0
    pci_bus_id: str = "00000000:3B:00.0"
    minor: int = 0
    event_types: int = 11
    utilization: dict[str, int] = field(default_factory=dict)
    processes: list[StubProcess] = field(default_factory=list)
    ancestors: dict[str, int] = field(default_factory=dict)
    links: list[StubLink] = field(default_factory=list)
    mig_mode: int | None = None
    needs_reset: bool = False
    mig_profiles: Sequence[dict[str, Any]] = ()
    instances: list[StubInstance] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    answers: dict[str, int | str] = field(default_factory=dict)
    hangs: list[str] = field(default_factory=list)


_PROFILES = (
    {"number": 0, "id": 19, "name": "MIG 1g.5gb", "memory_mib": 4864, "multiprocessors": 14, "slices": 1, "count": 7}
    | {"size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]},
    {"number": 2, "id": 9, "name": "MIG 3g.20gb", "memory_mib": 20096, "multiprocessors": 42, "slices": 3, "count": 2}
    | {"size": 4, "starts": [0, 4]},
)


def a100(uuid: str, *, mig_mode: int = 1, **more: Any) -> StubCard:
    """Return a card that can be divided, with two of its profiles."""
    return StubCard(uuid, "NVIDIA A100-SXM4-40GB", 40960 * 2**20, mig_mode=mig_mode, mig_profiles=_PROFILES, **more)


class StubDriver:
    """The state of the stub in `path`, which must be a new one; call :meth:`write` after changing what is here.

    Functions are named as in the library, such as ``nvmlDeviceGetCount_v2``. ``wait_ms`` is the longest that a wait for
    events takes.
    """

    def __init__(self, path: Path, *cards: StubCard, wait_ms: int = 0) -> None:
        self.path = path
        self.cards = list(cards)
        self.driver_version = "0.0"
        self.wait_ms = wait_ms
        self.errors: dict[str, int] = {}
        self.answers: dict[str, int | str] = {}
        self.hangs: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.write()

    @property
    def environment(self) -> dict[str, str]:
        """What names this state to the libraries."""
        return {"GPULOOM_STUB_DRIVER": str(self.path)}

    def write(self) -> None:
        """Let what is here hold from the next call on."""
        state = {name: value for name, value in vars(self).items() if name not in {"path", "cards"}}
        text = json.dumps({**state, "cards": [_drop_none(asdict(card)) for card in self.cards]})
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(text)
        os.replace(new, self.path)  # noqa: PTH105 - the libraries must never see half of it

    def fail(self, function: str, error: int, *, card: int | None = None) -> None:
        """Let a function fail, for one card or for all and itself."""
        (self if card is None else self.cards[card]).errors[function] = error
        self.write()

    def answer(self, function: str, value: int | str, *, card: int | None = None) -> None:
        """Let a function tell this; a text's characters up to U+00FF are its bytes."""
        (self if card is None else self.cards[card]).answers[function] = value
        self.write()

    def hang(self, function: str, *, card: int | None = None) -> None:
        """Let a function not return until :meth:`mend`."""
        (self if card is None else self.cards[card]).hangs.append(function)
        self.write()

    def mend(self) -> None:
        """Let everything work again."""
        holders: list[StubDriver | StubCard] = [self, *self.cards]
        for holder in holders:
            holder.errors, holder.answers, holder.hangs = {}, {}, []
        self.write()

    def emit(self, card: str, data: int, **more: int) -> None:
        """Report an error of a card, by default a critical one; `more` are type, gpu_instance and compute_instance."""
        self.events.append({"card": card, "data": data, **more})
        self.write()

    @property
    def calls(self) -> list[list[str]]:
        """What was called so far, each as the function's name and the card's UUID, if it was about one."""
        journal = Path(f"{self.path}.calls")
        return [line.split(" ") for line in journal.read_text().splitlines()] if journal.exists() else []

    def count(self, function: str) -> int:
        """Tell how often a function was called."""
        return sum(call[0] == function for call in self.calls)


def _drop_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _drop_none(each) for key, each in value.items() if each is not None}
    return [_drop_none(each) for each in value] if isinstance(value, list) else value
