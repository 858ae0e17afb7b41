"""From a pod to what it asks for: one request per container (scheduler 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import msgspec

from gpuloom.engine.options import Options
from gpuloom.engine.policies import CardPolicy, Weights, read_card_policy, read_weights
from gpuloom.model.mig import MIG_MODE
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.vendors.profile import Profile, SelectKeys
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import CARD_POLICY, NODE_POLICY, WEIGHTS
from gpuloom.wire.objects import Container, Pod, Quantity
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.words import INT32_MAX, decode_bool


class Phase(Enum):
    """When a container runs."""

    INIT = "init"  # one after another, before everything else
    SIDECAR = "sidecar"  # restartable init container: beside everything that follows
    REGULAR = "regular"


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """What one container asks for; ``request`` is None when it asks for no card."""

    name: str
    phase: Phase
    request: Request | None


class Selection(msgspec.Struct, frozen=True, gc=False):
    """The cards that a pod's own annotations accept, as written (scheduler 6.2).

    None where the pod does not care. A list that names nothing, such as ``","``, accepts nothing. The mode must contain
    the card's mode.
    """

    use_types: tuple[str, ...] | None = None
    nouse_types: tuple[str, ...] = ()
    use_uuids: tuple[str, ...] | None = None
    nouse_uuids: tuple[str, ...] = ()
    mode: str | None = None

    @property
    def names_uuids(self) -> bool:
        """Whether the pod cares about single cards."""
        return self.use_uuids is not None or bool(self.nouse_uuids)

    @property
    def takes_instances(self) -> bool:
        """Whether parts of divided cards will do."""
        return self.mode is None or MIG_MODE in self.mode

    def accepts_kind(self, model: str, mode: str) -> bool:
        """Tell whether a card of this model and mode may serve: models by parts of their name, ignoring case."""
        model = model.lower()
        if self.use_types is not None and not any(part in model for part in self.use_types):
            return False
        if any(part in model for part in self.nouse_types):
            return False
        return self.mode is None or mode in self.mode

    def accepts_uuid(self, uuid: str) -> bool:
        """Tell whether this very card may serve."""
        return (self.use_uuids is None or uuid in self.use_uuids) and uuid not in self.nouse_uuids


@dataclass(frozen=True, slots=True)
class Choice:
    """How nodes and cards are chosen among those that would do."""

    node_policy: str
    card_policy: CardPolicy
    weights: Weights
    numa_bind: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod asks for: containers in the order of the device lists (init first), which cards, and how to choose."""

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerDemand, ...]
    selection: Selection
    choice: Choice

    @property
    def phases(self) -> tuple[Phase, ...]:
        """When each container runs."""
        return tuple(container.phase for container in self.containers)


def asks_for_cards(pod: Pod, profile: Profile) -> bool:
    """Tell whether any container of a pod asks for a card."""
    return any(read_request(container, profile) is not None for container in pod.all_containers)


def read_demand(pod: Pod, profile: Profile, options: Options) -> Demand:
    """Read what a pod asks for; ``options`` hold the policies where the pod names none (5.6).

    Raises PolicyError when a pod that asks for cards has weights that cannot be read.
    """
    containers = tuple(
        ContainerDemand(container.name, phase, read_request(container, profile))
        for container, phase in zip(pod.all_containers, read_phases(pod), strict=True)
    )
    asks = any(container.request for container in containers)
    return Demand(
        uid=pod.metadata.uid,
        namespace=pod.namespace,
        name=pod.name,
        containers=containers,
        selection=_read_selection(pod.annotations, profile.select),
        choice=_read_choice(pod.annotations if asks else {}, profile.select, options),
    )


def _read_choice(annotations: Mapping[str, str], keys: SelectKeys, options: Options) -> Choice:
    numa_bind = _read_flag(annotations.get(keys.numa_bind, ""))
    return Choice(
        node_policy=annotations.get(NODE_POLICY, options.node_policy),
        card_policy=read_card_policy(
            annotations.get(CARD_POLICY, options.card_policy), numa_bind=numa_bind, device_sort=options.device_sort
        ),
        weights=read_weights(annotations.get(WEIGHTS)),
        numa_bind=numa_bind,
    )


def _read_flag(text: str) -> bool:
    try:
        return decode_bool(text)
    except WireError:
        return False


def read_phases(pod: Pod) -> tuple[Phase, ...]:
    """Tell when each container of a pod runs, init containers first."""
    first = tuple(Phase.SIDECAR if container.is_sidecar else Phase.INIT for container in pod.init_containers)
    # One value for all that are alike: there may be very many pods.
    return first + (Phase.REGULAR,) * len(pod.containers) if first else _regular(len(pod.containers))


@lru_cache(64)
def _regular(count: int) -> tuple[Phase, ...]:
    return (Phase.REGULAR,) * count


def read_request(container: Container, profile: Profile) -> Request | None:
    """Read what one container asks for, None when it asks for no card or in a way that cannot be used."""
    names, defaults = profile.resources, profile.request
    cards = _read_integer(container, names.count)
    if cards is None or not 0 < cards <= INT32_MAX:
        return None
    memory_mib = _read_memory_mib(container, profile)
    cores = _read_integer(container, names.cores)
    if cores is None:
        cores = defaults.default_cores
    if memory_mib is None or not 0 <= cores <= INT32_MAX:
        return None
    percentage = _read_percentage(container, names.memory_percentage)
    if percentage == PERCENTAGE_NOT_SET and not memory_mib:
        if defaults.default_memory_mib:
            memory_mib = defaults.default_memory_mib
        else:
            percentage = 100
    return Request(vendor=profile.word, cards=cards, memory_mib=memory_mib, memory_percentage=percentage, cores=cores)


def find_quantity(container: Container, name: str) -> Quantity | None:
    """Return what a container says about a resource, in limits or else in requests."""
    if not name:
        return None
    return container.limits.get(name, container.requests.get(name))


def _read_integer(container: Container, name: str) -> int | None:
    quantity = find_quantity(container, name)
    return None if quantity is None else decode_strict_integer(quantity)


def _read_memory_mib(container: Container, profile: Profile) -> int | None:
    """0 when no memory is named, None when what is named cannot be used."""
    quantity = find_quantity(container, profile.resources.memory)
    if quantity is None:
        return 0
    factor = max(profile.request.memory_factor, 1)
    value = decode_strict_integer(quantity)
    if value is None or not 0 <= value <= INT32_MAX // factor:
        return None
    return value * factor


def _read_percentage(container: Container, name: str) -> int:
    value = _read_integer(container, name)
    if value is None or value <= 0:
        return PERCENTAGE_NOT_SET
    return min(value, 100)


def _read_selection(annotations: Mapping[str, str], keys: SelectKeys) -> Selection:
    use_types = _read_list(annotations, keys.use_type)
    return Selection(
        use_types=None if use_types is None else _lower(use_types),
        nouse_types=_lower(_read_list(annotations, keys.nouse_type) or ()),
        use_uuids=_read_list(annotations, keys.use_uuid),
        nouse_uuids=_read_list(annotations, keys.nouse_uuid) or (),
        mode=annotations.get(keys.mode),
    )


def _read_list(annotations: Mapping[str, str], key: str) -> tuple[str, ...] | None:
    """Items without blanks around them, None when there is no annotation or nothing in it."""
    value = annotations.get(key, "").strip()
    return tuple(part for piece in value.split(",") if (part := piece.strip())) if value else None


def _lower(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)
