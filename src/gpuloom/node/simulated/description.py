"""Machine descriptions: what a simulated machine has and what is wrong with it, as a TOML file says."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from gpuloom.node.errors import MachineError

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]
_LARGEST_MACHINE = 256


class SimulatedProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[cards.mig_profiles]]``: a kind of MIG instance, `size` slices long, that may start at each of `starts`."""

    name: Annotated[str, msgspec.Meta(pattern=r"^\d+g\.")]
    memory_mib: _Positive
    multiprocessors: _Positive
    size: _Positive
    starts: tuple[_NotNegative, ...]


class CardGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[cards]]``: `count` equal cards in slots that follow each other.

    ``switch_links`` is the number of NVLinks of each card to the machine's NVSwitch, ``peer_links`` to each other card
    of its group.
    """

    model: Annotated[str, msgspec.Meta(min_length=1)]
    memory_mib: _Positive
    count: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_MACHINE)] = 1
    numa: _NotNegative = 0
    healthy: bool = True
    switch_links: _NotNegative = 0
    peer_links: _NotNegative = 0
    mig_profiles: tuple[SimulatedProfile, ...] = ()


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[faults]]``: what is wrong as long as the fault is listed, with one card by index or with the driver.

    ``xid`` reports a critical error once, ``lost`` takes the card off the bus, ``failing`` lets calls fail, ``silent``
    lets them run into their deadline, ``slow`` makes them last `delay_s`.
    """

    kind: Literal["xid", "lost", "failing", "silent", "slow"]
    card: _NotNegative | None = None
    xid: _Positive = 79
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 1.0


class MachineDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine: its groups of cards, in the order of their indexes, and its faults."""

    cards: tuple[CardGroup, ...]
    faults: tuple[Fault, ...] = ()


def shipped_machines() -> tuple[str, ...]:
    """Names of the machine descriptions that come with gpuloom, sorted."""
    folder = files("gpuloom.node") / "machines"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_machine(name_or_path: str) -> MachineDescription:
    """Read a machine description: a shipped one by its name, any other by its path.

    Raises MachineError that names the file, the key and what is wrong with it.
    """
    if name_or_path in shipped_machines():
        text = (files("gpuloom.node") / "machines" / f"{name_or_path}.toml").read_bytes()
        return parse_machine(text, source=f"{name_or_path}.toml")
    try:
        text = Path(name_or_path).read_bytes()
    except OSError as error:
        raise MachineError(
            f"machine description {name_or_path}: {error.strerror}; give the path of a TOML file or one of: "
            f"{', '.join(shipped_machines())}"
        ) from error
    return parse_machine(text, source=name_or_path)


def parse_machine(text: bytes, *, source: str) -> MachineDescription:
    """Read the text of a machine description; `source` names it in errors.

    Raises MachineError for broken TOML, unknown keys, values out of range and faults of cards that are not there.
    """
    try:
        description = msgspec.toml.decode(text, type=MachineDescription)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MachineError(f"machine description {source}: {error}") from error
    count = sum(group.count for group in description.cards)
    for place, fault in enumerate(description.faults):
        if fault.card is not None and fault.card >= count:
            raise MachineError(
                f"machine description {source}: faults[{place}].card is {fault.card}, but there are {count} cards"
            )
        if fault.card is None and fault.kind == "lost":
            raise MachineError(f"machine description {source}: faults[{place}] must say which card is lost")
    return description
