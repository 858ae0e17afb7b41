"""From a pod to what it asks for: one request per container (scheduler 3)."""

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from gpuloom.engine.hostfit.requests import read_cpu_milli
from gpuloom.engine.request.options import Options
from gpuloom.engine.scoring.policies import CardPolicy, imply_card_policy, read_card_policy, read_node_policy
from gpuloom.engine.scoring.policy import NodePolicy
from gpuloom.engine.scoring.weights import PolicyError, Weights, read_weights
from gpuloom.model.mig import MIG_MODE
from gpuloom.model.request import Request
from gpuloom.model.share import Tenancy
from gpuloom.vendors.catalog import Catalog
from gpuloom.vendors.hooks import read_request
from gpuloom.vendors.profile import Profile, SelectKeys
from gpuloom.wire.errors import WireError
from gpuloom.wire.keys import CARD_POLICY, NODE_POLICY, WEIGHTS
from gpuloom.wire.objects import Pod
from gpuloom.wire.words import decode_bool

LONGEST_WISH = 16_384
MOST_CHOICES = 1_024
"""So many characters and entries an annotation about cards may have: about 400 UUIDs."""
POLICIES = frozenset({NODE_POLICY, CARD_POLICY, WEIGHTS})


class ContainerType(Enum):
    """Which of its pod's containers one is, and so when it runs."""

    INIT = "init"  # one after another, before everything else
    SIDECAR = "sidecar"  # restartable init container: beside everything that follows
    REGULAR = "regular"


TYPES_IN_ORDER_OF_PLACING = (ContainerType.SIDECAR, ContainerType.INIT, ContainerType.REGULAR)
"""Sidecars run beside all others, so they are placed first; what is booked (scheduler 4.5) then always fits."""


class ContainerDemand(msgspec.Struct, frozen=True, gc=False):
    """What one container asks for; ``request`` is None when it asks for no card."""

    name: str
    type: ContainerType
    request: Request | None


class CardSelector(msgspec.Struct, frozen=True, gc=False):
    """The cards that a pod's own annotations accept, as written (scheduler 6.2).

    None where the pod does not care. A list that names nothing, such as ``","``, accepts nothing. The mode must contain
    the card's mode. ``tenancy`` says with whom the pod shares cards, ``link_aware`` whether links count in the score.
    """

    use_types: tuple[str, ...] | None = None
    nouse_types: tuple[str, ...] = ()
    use_uuids: frozenset[str] | None = None
    nouse_uuids: frozenset[str] = frozenset()
    mode: str | None = None
    tenancy: Tenancy = Tenancy()
    link_aware: bool | None = None

    @property
    def names_kinds(self) -> bool:
        """Whether the pod cares about models or modes."""
        return self.use_types is not None or bool(self.nouse_types) or self.mode is not None

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


ANY_CARD = CardSelector()
"""Any card will do."""


class PlacementPreferences(msgspec.Struct, frozen=True, gc=False):
    """How a pod wants nodes and cards chosen among those that would do; defaults where it does not say.

    node_word  the node policy as written, which may be no policy
    numa_bind  whether all cards of a container must be of one NUMA node
    """

    node_policy: NodePolicy
    node_word: str
    card_policy: CardPolicy
    weights: Weights
    numa_bind: bool


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What a pod asks for: containers in the order of the device lists (init first), which cards, and how to choose."""

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerDemand, ...]
    selector: CardSelector
    preferences: PlacementPreferences

    @property
    def asks(self) -> bool:
        """Whether any container asks for a card."""
        return any(container.request is not None for container in self.containers)

    @property
    def container_types(self) -> tuple[ContainerType, ...]:
        """The type of each container, in the order of the device lists."""
        return tuple(container.type for container in self.containers)

    @property
    def in_order_of_placing(self) -> Iterator[tuple[int, ContainerDemand]]:
        """The containers with their positions in the device lists, in the order in which they get cards."""
        types, containers = TYPES_IN_ORDER_OF_PLACING, self.containers
        return ((at, one) for its_type in types for at, one in enumerate(containers) if one.type is its_type)

    @property
    def requests(self) -> dict[int, Request]:
        """What containers ask for by position, in the order in which they get cards; not those that ask for none."""
        return {at: one.request for at, one in self.in_order_of_placing if one.request is not None}

    @property
    def placed_first(self) -> Request:
        """The request that is placed before all others: for it the cards as they are now are the whole truth.

        Raises ValueError when the pod asks for no card.
        """
        # Every decision asks, and nearly all pods have one container.
        if len(self.containers) == 1 and self.containers[0].request is not None:
            return self.containers[0].request
        for request in self.requests.values():
            return request
        raise ValueError("the pod asks for no card")

    @property
    def first_turn(self) -> int:
        """Which container, in order of placing from 1, is the first that asks for cards."""
        return [container.request is not None for _, container in self.in_order_of_placing].index(True) + 1

    def with_requests(self, requests: Mapping[int, Request]) -> "Demand":
        """Return the same as if containers asked for this, by their positions, and others for no card."""
        containers = (ContainerDemand(one.name, one.type, requests.get(at)) for at, one in enumerate(self.containers))
        return replace(self, containers=tuple(containers))


Demands = Mapping[str, Demand]
"""What a pod asks for, by the word of each vendor that it asks, in ascending order."""


def asks_for_cards(pod: Pod, catalog: Catalog) -> bool:
    """Tell whether any container of a pod asks for a card of any vendor."""
    # Most pods of a cluster name no card: that is to be found out quickly.
    concerned = catalog.concerned(pod.all_containers)
    return bool(concerned) and any(asks_vendor(pod, profile) for profile in concerned)


def asks_vendor(pod: Pod, profile: Profile) -> bool:
    """Tell whether any container of a pod asks for a card of one vendor."""
    annotations = pod.annotations
    return any(read_request(container, annotations, profile) is not None for container in pod.all_containers)


def read_demands(pod: Pod, catalog: Catalog, options: Options) -> Demands:
    """Read what a pod asks of every vendor; vendors of which it asks nothing are left out.

    Raises PolicyError when a pod that asks for cards has weights that cannot be read, or wishes that are too long.
    """
    concerned = catalog.concerned(pod.all_containers)
    read = {profile.word: read_demand(pod, profile, options) for profile in concerned}
    return {word: demand for word, demand in read.items() if demand.asks}


def read_demand(pod: Pod, profile: Profile, options: Options) -> Demand:
    """Read what a pod asks for; ``options`` hold the policies where the pod names none (scheduler 5.6).

    Raises PolicyError when a pod that asks for cards has weights that cannot be read, or wishes that are too long.
    """
    containers = tuple(
        ContainerDemand(container.name, its_type, read_request(container, pod.annotations, profile))
        for container, its_type in zip(pod.all_containers, read_container_types(pod), strict=True)
    )
    asks = any(container.request is not None for container in containers)
    annotations = pod.annotations if asks else {}
    _check_lengths(annotations, profile.select)
    return Demand(
        uid=pod.metadata.uid,
        namespace=pod.namespace,
        name=pod.name,
        containers=containers,
        selector=_read_selector(annotations, profile.select),
        preferences=_read_preferences(pod, annotations, profile.select, options),
    )


def _check_lengths(annotations: Mapping[str, str], keys: SelectKeys) -> None:
    """Refuse a pod whose wishes take long to compare and much to remember: its author chooses how much (trust T-02).

    Raises PolicyError.
    """
    for key, value in annotations.items():
        is_long = len(value) > LONGEST_WISH or value.count(",") >= MOST_CHOICES
        if is_long and (key in _keys_of(keys) or key in POLICIES):
            raise PolicyError(
                f"annotation {key} is longer than {LONGEST_WISH} characters or {MOST_CHOICES} entries: shorten it"
            )


def _read_preferences(
    pod: Pod, annotations: Mapping[str, str], keys: SelectKeys, options: Options
) -> PlacementPreferences:
    node_word = annotations.get(NODE_POLICY, options.node_policy)
    node_policy = read_node_policy(node_word)
    if node_policy.looks_ahead:
        node_policy = node_policy.for_pod(read_cpu_milli(pod))
    numa_bind = _read_flag(annotations, keys.numa_bind) or False
    card_word = annotations.get(CARD_POLICY, imply_card_policy(node_word, options.card_policy))
    return PlacementPreferences(
        node_policy=node_policy,
        node_word=node_word,
        card_policy=read_card_policy(card_word, numa_bind=numa_bind, device_sort=options.device_sort),
        weights=read_weights(annotations.get(WEIGHTS)),
        numa_bind=numa_bind,
    )


def _read_flag(annotations: Mapping[str, str], key: str) -> bool | None:
    """Read yes or no, which is no where it cannot be read; None when there is no annotation."""
    try:
        return decode_bool(annotations[key]) if key in annotations else None
    except WireError:
        return False


def read_container_types(pod: Pod) -> tuple[ContainerType, ...]:
    """Return the type of each container of a pod, init containers first."""
    first = tuple(
        ContainerType.SIDECAR if container.is_sidecar else ContainerType.INIT for container in pod.init_containers
    )
    # One value for all that are alike: there may be very many pods.
    return first + (ContainerType.REGULAR,) * len(pod.containers) if first else _regular(len(pod.containers))


@lru_cache(64)
def _regular(count: int) -> tuple[ContainerType, ...]:
    return (ContainerType.REGULAR,) * count


def init_is_over(pod: Pod) -> bool:
    """Whether all init containers but sidecars have ended well."""
    if not pod.init_containers:
        return False
    sidecars = {container.name for container in pod.init_containers if container.is_sidecar}
    statuses = [s for s in pod.status.init_container_statuses or [] if s.name not in sidecars]
    waited_for = len(pod.init_containers) - len(sidecars)
    return 0 < waited_for <= len(statuses) and all(
        status.state and status.state.terminated and status.state.terminated.exit_code == 0 for status in statuses
    )


def _read_selector(annotations: Mapping[str, str], keys: SelectKeys) -> CardSelector:
    # Most pods do not care: of them nothing but this is asked.
    if _keys_of(keys).isdisjoint(annotations):
        return ANY_CARD
    use_types = _read_list(annotations, keys.types.use) if keys.types else None
    nouse_types = _read_list(annotations, keys.types.nouse) if keys.types else None
    wanted = [frozenset(found) for pair in keys.uuids if (found := _read_list(annotations, pair.use)) is not None]
    unwanted = (uuid for pair in keys.uuids for uuid in _read_list(annotations, pair.nouse) or ())
    return CardSelector(
        use_types=None if use_types is None else _lower(use_types),
        nouse_types=_lower(nouse_types or ()),
        # Every list that is there must name the card.
        use_uuids=frozenset.intersection(*wanted) if wanted else None,
        nouse_uuids=frozenset(unwanted),
        mode=annotations.get(keys.mode) if keys.mode else None,
        tenancy=read_tenancy(annotations, keys),
        link_aware=_read_flag(annotations, keys.link_aware),
    )


@lru_cache
def _keys_of(keys: SelectKeys) -> frozenset[str]:
    return frozenset(keys.all)


def read_tenancy(annotations: Mapping[str, str], keys: SelectKeys) -> Tenancy:
    """Read with whom a pod shares cards."""
    return Tenancy(annotations.get(keys.app_class, ""), annotations.get(keys.policy, ""))


def _read_list(annotations: Mapping[str, str], key: str) -> tuple[str, ...] | None:
    """Items without blanks around them, None when there is no annotation or nothing in it."""
    value = annotations.get(key, "").strip()
    return tuple(part for piece in value.split(",") if (part := piece.strip())) if value else None


def _lower(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)
