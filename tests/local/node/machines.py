"""Machines, settings and what happens to them, drawn by Hypothesis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from gpuloom.node.simulated import CardGroup, Fault, MachineDescription
from gpuloom.node.simulated.description import SimulatedProfile

PROFILES = (
    SimulatedProfile("1g.5gb", 4864, 14, 1, tuple(range(7))),
    SimulatedProfile("1g.5gb+me", 4864, 14, 1, tuple(range(7))),
    SimulatedProfile("3g.20gb", 20096, 42, 4, (0, 4)),
)


@dataclass(frozen=True)
class Xid:
    """An error of a card, maybe of one instance on it, maybe of a card that the driver cannot tell."""

    card: int | None
    xid: int
    instance: tuple[int, int] | None


@dataclass(frozen=True)
class Faults:
    """The faults that are in force from now on."""

    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Pause:
    """So much time passes."""

    seconds: float


@dataclass(frozen=True)
class Meddling:
    """Somebody else writes the node's register annotation, or deletes it."""

    text: str | None


@dataclass(frozen=True)
class Start:
    """A pod with so many cards; `choice` says which ones, and which ids the kubelet takes."""

    cards: int
    choice: int


@dataclass(frozen=True)
class End:
    """One of the pods ends."""

    choice: int


Step = Xid | Faults | Pause | Meddling | Start | End | MachineDescription


@dataclass(frozen=True)
class Story:
    """A machine, the settings with which it is offered, and what happens one after another."""

    machine: MachineDescription
    settings: Mapping[str, Any]
    steps: tuple[Step, ...]


def groups() -> st.SearchStrategy[CardGroup]:
    """Up to three equal cards; some are divided."""
    instances = st.sampled_from([(), (), ("1g.5gb", "1g.5gb"), ("3g.20gb", "1g.5gb"), ("1g.5gb+me",)])
    return st.builds(
        CardGroup,
        model=st.sampled_from(["NVIDIA L4", "Tesla T4"]),
        memory_mib=st.integers(1, 200_000),
        count=st.integers(1, 3),
        numa=st.integers(0, 1),
        mig_profiles=st.just(PROFILES),
        instances=instances,
    )


def machines() -> st.SearchStrategy[MachineDescription]:
    """Machines of a few cards."""
    return st.builds(MachineDescription, cards=st.lists(groups(), min_size=1, max_size=3).map(tuple))


def _faults() -> st.SearchStrategy[Fault]:
    return st.one_of(
        st.builds(Fault, kind=st.just("lost"), card=st.integers(0, 2)),
        st.builds(Fault, kind=st.just("slow"), card=st.none(), delay_s=st.just(0.0)),
        st.builds(Fault, kind=st.sampled_from(["failing", "silent"]), card=st.none() | st.integers(0, 2)),
    )


def _steps() -> st.SearchStrategy[Step]:
    instances = st.none() | st.tuples(st.integers(1, 2), st.just(0))
    xids = st.builds(Xid, st.none() | st.integers(0, 8), st.sampled_from([79, 48, 13]), instances)
    starts = st.builds(Start, st.integers(1, 2), st.integers(0, 1000))
    return st.one_of(
        xids,
        st.builds(Faults, st.lists(_faults(), max_size=2).map(tuple)),
        st.just(Faults(())),
        st.builds(Pause, st.sampled_from([10.0, 400.0])),
        st.builds(Meddling, st.sampled_from([None, "[]", "not even JSON"])),
        starts,
        starts,
        st.builds(End, st.integers(0, 1000)),
        machines(),
    )


def stories() -> st.SearchStrategy[Story]:
    """Stories of one node."""
    settings = st.fixed_dictionaries(
        {
            "device_split_count": st.integers(1, 3),
            "device_memory_scaling": st.sampled_from([1.0, 1.5]),
            "register_format": st.sampled_from(["json", "csv9"]),
            "mig_strategy": st.sampled_from(["none", "none", "single", "mixed"]),
            "filter_indexes": st.frozensets(st.integers(0, 3), max_size=1),
        }
    )
    return st.builds(Story, machines(), settings, st.lists(_steps(), min_size=1, max_size=12).map(tuple))
