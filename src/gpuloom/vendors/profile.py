"""What is known about one accelerator family: a frozen value read from its TOML file."""

from importlib.resources import files

import msgspec

from gpuloom.model.mig import MigGeometry


class ProfileError(ValueError):
    """A profile or a device configuration cannot be used; the message names the file, the key and what to do."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parts: an unknown key is an error."""


class ResourceNames(_Part, frozen=True):
    """Extended resources that users write; an empty name switches the feature off."""

    count: str = ""
    memory: str = ""
    memory_percentage: str = ""
    cores: str = ""
    priority: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """Every name in use."""
        names = (self.count, self.memory, self.memory_percentage, self.cores, self.priority)
        return tuple(name for name in names if name)


class RequestDefaults(_Part, frozen=True):
    """How a request is completed."""

    default_cards: int = 0
    default_memory_mib: int = 0
    default_cores: int = 0
    memory_factor: int = 1


class ContainerChanges(_Part, frozen=True):
    """What the webhook adds to containers."""

    hide_cards: bool = False
    core_policy: str = ""
    runtime_class: str = ""


class CardSource(_Part, frozen=True):
    """Where a node says which cards it has, and how well they are linked."""

    register: str
    pair_scores: str = ""


class SelectKeys(_Part, frozen=True):
    """Pod annotations that narrow the choice of cards."""

    use_type: str = ""
    nouse_type: str = ""
    use_uuid: str = ""
    nouse_uuid: str = ""
    numa_bind: str = ""
    mode: str = ""


class FitRules(_Part, frozen=True):
    """Names of the checks, in the order in which they are asked."""

    checks: tuple[str, ...]


class WriteKeys(_Part, frozen=True):
    """Pod annotations that a decision writes."""

    to_allocate: str
    allocated: str
    instances: str = ""


Geometries = tuple[tuple[tuple[str, ...], tuple[MigGeometry, ...]], ...]
"""Parts of model names, and the ways in which cards of such a model can be cut."""


class Profile(_Part, frozen=True):
    """One accelerator family."""

    word: str
    resources: ResourceNames
    request: RequestDefaults
    container: ContainerChanges
    cards: CardSource
    select: SelectKeys
    fit: FitRules
    write: WriteKeys
    geometries: Geometries = ()


def load_nvidia() -> Profile:
    """Read the shipped NVIDIA profile.

    Raises ProfileError when the package's own file is broken.
    """
    text = files("gpuloom.vendors").joinpath("nvidia.toml").read_bytes()
    try:
        return msgspec.toml.decode(text, type=Profile)
    except msgspec.MsgspecError as error:
        raise ProfileError(f"nvidia.toml: {error}") from error
