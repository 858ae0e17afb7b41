"""Machine descriptions: what a simulated machine has and what is wrong with it, as a TOML file says."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from gpuloom.model.mig import Placement
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


class Slot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[cards.slots]]``: where one card sits.

    ``pci`` is the way to it below its socket: host bridge and then PCIe switches, such as ``0/1``. Empty is not known.
    """

    numa: _NotNegative = 0
    pci: Annotated[str, msgspec.Meta(pattern=r"^(\d+(/\d+)*)?$")] = ""


class CardGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[[cards]]``: `count` equal cards on socket `numa`, or one in each of the `slots`.

    ``switch_links`` is the number of NVLinks of each card to the machine's NVSwitch, ``peer_links`` to each other card
    of its group. ``instances`` are the profiles that an administrator has divided each card into.
    """

    model: Annotated[str, msgspec.Meta(min_length=1)]
    memory_mib: _Positive
    count: Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_MACHINE)] = 1
    numa: _NotNegative = 0
    slots: Annotated[tuple[Slot, ...], msgspec.Meta(max_length=_LARGEST_MACHINE)] = ()
    healthy: bool = True
    switch_links: _NotNegative = 0
    peer_links: _NotNegative = 0
    mig_profiles: tuple[SimulatedProfile, ...] = ()
    instances: tuple[str, ...] = ()

    @property
    def places(self) -> tuple[Slot, ...]:
        """Where each card of the group sits."""
        return self.slots or (Slot(self.numa),) * self.count


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

    Raises MachineError for broken TOML, unknown keys, values out of range, and faults of cards and instances of
    profiles that are not there.
    """
    try:
        description = msgspec.toml.decode(text, type=MachineDescription)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MachineError(f"machine description {source}: {error}") from error
    _check_faults(description, source)
    _check_instances(description, source)
    return description


def place_instances(profiles: Sequence[SimulatedProfile], names: Sequence[str]) -> tuple[Placement, ...]:
    """Give each instance the first place that is free.

    Raises MachineError for an unknown profile and for one instance too many.
    """
    places: list[Placement] = []
    for name in names:
        known = [Placement(start, one.size) for one in profiles if one.name == name for start in one.starts]
        free = [place for place in known if not any(place.overlaps(taken) for taken in places)]
        if not free:
            raise MachineError(f"no room for an instance {name}" if known else f"no profile {name} in mig_profiles")
        places.append(free[0])
    return tuple(places)


def _check_faults(description: MachineDescription, source: str) -> None:
    count = sum(len(group.places) for group in description.cards)
    for place, fault in enumerate(description.faults):
        if fault.card is not None and fault.card >= count:
            raise MachineError(
                f"machine description {source}: faults[{place}].card is {fault.card}, but there are {count} cards"
            )
        if fault.card is None and fault.kind == "lost":
            raise MachineError(f"machine description {source}: faults[{place}] must say which card is lost")


def _check_instances(description: MachineDescription, source: str) -> None:
    for place, group in enumerate(description.cards):
        try:
            place_instances(group.mig_profiles, group.instances)
        except MachineError as error:
            raise MachineError(f"machine description {source}: cards[{place}].instances: {error}") from error
