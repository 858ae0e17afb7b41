"""What is known about one accelerator family: a frozen value read from its TOML file (vendors 3).

Every field has the meaning that its docstring gives, for all families. Where a family really differs, a field names a
hook: a small function of :mod:`gpuloom.vendors.hooks`.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from gpuloom.model.mig import MigGeometry
from gpuloom.wire.words import Natural32


class ProfileError(ValueError):
    """A profile or a device configuration cannot be used; the message names the file, the key and what to do."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parts: an unknown key is an error."""


_Kept = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]
"""An amount, or -1 for the amount that was asked for."""


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
    """How a request is read and completed.

    recognize      where a container must name the count so that this family serves it
    read_from      where amounts are read
    reader         hook that reads the request in place of the common rules
    forgives_cores whether cores that are no whole number count as the default; else nothing is asked for (vendors 1.8)
    rounds         when memory of pods that no webhook saw is rounded up to a template: ``always``, or with the switch
                   of this name
    """

    default_cards: Natural32 = 0
    default_memory_mib: Natural32 = 0
    default_cores: Natural32 = 0
    memory_factor: Natural32 = 1
    recognize: Literal["limits", "limits-or-requests"] = "limits"
    read_from: Literal["limits-then-requests", "limits"] = "limits-then-requests"
    reader: str = ""
    forgives_cores: bool = False
    rounds: Literal["", "always", "ascend-round-unseen"] = ""


class ContainerChanges(_Part, frozen=True):
    """What the webhook adds to containers; ``mutate`` names the hook that does."""

    mutate: str = ""
    hide_cards: bool = False
    core_policy: str = ""
    runtime_class: str = ""

    @property
    def changes_all(self) -> bool:
        """Whether it changes containers that name none of the family's resources, too."""
        return self.hide_cards or self.core_policy not in {"", "default"}


class CardSource(_Part, frozen=True):
    """Where a node says which cards it has.

    source       ``register``: an annotation; ``capacity``: the node's capacity of ``unit`` gives the number of cards
    register     key of that annotation; ``pair_scores`` is the key of the one that says how well cards are linked
    reader       hook that reads the cards in place of the common rules
    unit         the resource whose capacity is divided by ``per_card``
    id           ids of cards from capacity, with ``{node}`` and ``{index}``
    count, memory_mib, cores  of each card from capacity; memory 0 is an equal part of the capacity of memory
    numa_halves  whether the second half of the cards is on NUMA node 1
    annotations, labels  what else of the node the reader reads
    set_cores    cores of registered cards, in place of the registered number; 0 keeps that number
    """

    source: Literal["register", "capacity"] = "register"
    register: str = ""
    pair_scores: str = ""
    reader: str = ""
    unit: Literal["count", "cores"] = "count"
    per_card: Natural32 = 1
    id: str = ""
    count: Natural32 = 0
    memory_mib: Natural32 = 0
    cores: Natural32 = 0
    numa_halves: bool = False
    set_cores: Natural32 = 0
    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class HealthRules(_Part, frozen=True):
    """How it is known that a node's cards can be used.

    kind       ``handshake``: by question and answer in an annotation; ``capacity``: while the node's capacity of the
               count is above zero; ``annotation``: while the register annotation exists; ``always``
    handshake  key of that annotation
    counted    whether the cards go at once when the kubelet's count falls to zero
    clean_register  whether the register annotation is removed when the cards can no longer be used
    """

    kind: Literal["handshake", "capacity", "annotation", "always"] = "always"
    handshake: str = ""
    counted: bool = False
    clean_register: bool = False


class KeyPair(_Part, frozen=True):
    """Two pod annotations that narrow a choice: one lists what is accepted, the other what is refused."""

    use: str
    nouse: str


class SelectKeys(_Part, frozen=True):
    """Pod annotations that narrow the choice of cards, or say how the pod shares one.

    uuids      lists of card ids; every pair must be satisfied
    types      lists of parts of model names
    numa_bind  all cards of a container on one NUMA node
    mode       accepted modes of cards
    app_class  ``online`` or ``offline``: pods with a class do not share a card with pods without one
    policy     how cores are shared out; pods of different policies do not share a card
    link_aware  whether the links of whole cards count in the score
    """

    uuids: tuple[KeyPair, ...] = ()
    types: KeyPair | None = None
    numa_bind: str = ""
    mode: str = ""
    app_class: str = ""
    policy: str = ""
    link_aware: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """Every key in use."""
        pairs = (*self.uuids, *((self.types,) if self.types else ()))
        keys = (self.numa_bind, self.mode, self.app_class, self.policy, self.link_aware)
        return (*(key for pair in pairs for key in (pair.use, pair.nouse)), *(key for key in keys if key))


class FitRules(_Part, frozen=True):
    """Names of the checks, in the order in which they are asked, and what depends on several cards.

    topology    whether the card policy ``topology-aware`` chooses linked cards
    bits        whether cores are bits of a mask
    same_card   when all containers of a pod must get the same card: ``always``, or with the switch of this name
    hami_quota  whether HAMi itself tests quotas while it chooses cards of this family
    select      hook that chooses among the cards that no check rejects
    need        hook that works out what a card must give
    """

    checks: tuple[str, ...]
    topology: bool = False
    bits: bool = False
    same_card: Literal["", "always", "metax-same-card"] = ""
    hami_quota: bool = False
    select: str = ""
    need: str = ""


class ScoreRules(_Part, frozen=True):
    """What the family adds to a node's score.

    hook  the function, none when empty
    cap_cores  whether a card with more cores given away than registered counts as just full
    sign  ``better-is-higher``: subtracted under the policy ``spread``, where the lowest score wins; ``neutral``:
          decides before everything else; ``as-is``: the function looks at the policy itself
    """

    hook: str = ""
    cap_cores: bool = False
    sign: Literal["better-is-higher", "neutral", "as-is"] = "better-is-higher"


class ShareRules(_Part, frozen=True):
    """What a share holds, where that differs from what was asked for; below 0: as asked for.

    typed_by_model  whether a share names the card's model instead of the vendor's word
    scaled_cores    whether cores are asked for in per cent and given in the card's own units; quotas count these units
    """

    memory_mib: _Kept = -1
    cores: _Kept = -1
    typed_by_model: bool = False
    scaled_cores: bool = False


class LockRules(_Part, frozen=True):
    """The node lock that a Bind takes, none without a key.

    names_holder  whether the value names the pod
    expires_s     time after which a lock no longer counts; 0: as the scheduler's flag says
    """

    key: str = ""
    names_holder: bool = True
    expires_s: Natural32 = 0


class WriteKeys(_Part, frozen=True):
    """Pod annotations that a decision writes.

    to_allocate, allocated  the device lists; the first is empty if no plugin reads it
    instances               parts of divided cards
    extra                   more keys; values may hold {node}, {index}, {indexes}, {cores}, {memory_units}, {time_s}
                            and {time_ns}, taken from the first card of the first container that has one
    annotate                hook that makes more; ``recall`` is a hook that reads what the device list leaves out
    core_ids                when devices are named by their cores as soon as one container asks for cores: ``always``,
                            or with the switch of this name
    owned                   keys of these; ``owned_prefixes`` are the starts of keys that exist once a container
    """

    to_allocate: str
    allocated: str
    instances: str = ""
    extra: dict[str, str] = {}
    annotate: str = ""
    recall: str = ""
    core_ids: Literal["", "always", "neuron-core-ids"] = ""
    owned: tuple[str, ...] = ()
    owned_prefixes: tuple[str, ...] = ()


class Template(_Part, frozen=True):
    """A size in which a card can be given away; ``cpus`` are those of the card."""

    name: str
    memory_mib: Natural32
    cores: Natural32 = 0
    cpus: Natural32 = 0


class Traits(_Part, frozen=True):
    """Numbers and switches that hooks of a family read.

    allocatable_mib, capacity_mib  memory of a card that containers may have, and all of it
    templates    sizes in which cards are given away, by memory
    in_pairs     cards are given away two by two
    soft_split   nodes can share cards by software unless they say otherwise
    link_aware   whole cards are scored by their links
    """

    allocatable_mib: Natural32 = 0
    capacity_mib: Natural32 = 0
    templates: tuple[Template, ...] = ()
    in_pairs: bool = False
    soft_split: bool = False
    link_aware: bool = False


class ConfigRules(_Part, frozen=True):
    """Where ``device-config.yaml`` describes the family.

    section     name of the section; ``keys`` says which key sets which field; the first that is not empty counts
    each        the section is a list, with an entry for each chip; in newer files the list has the key ``under``,
                and the keys of ``beside`` stand next to it
    by_default  whether the family is active without a device configuration
    flag        the scheduler flag that switches the family on, empty for none
    """

    section: str = ""
    keys: dict[str, str] = {}
    each: bool = False
    under: str = ""
    beside: dict[str, str] = {}
    by_default: bool = True
    flag: Literal["", "enable-ascend", "enable-iluvatar"] = ""


Geometries = tuple[tuple[tuple[str, ...], tuple[MigGeometry, ...]], ...]
"""Parts of model names, and the ways in which cards of such a model can be divided."""


class Profile(_Part, frozen=True):
    """One accelerator family, or one chip of a family with several."""

    word: str
    name: str
    plugin: str
    resources: ResourceNames
    fit: FitRules
    write: WriteKeys
    request: RequestDefaults = RequestDefaults()
    container: ContainerChanges = ContainerChanges()
    cards: CardSource = CardSource()
    health: HealthRules = HealthRules()
    select: SelectKeys = SelectKeys()
    share: ShareRules = ShareRules()
    score: ScoreRules = ScoreRules()
    lock: LockRules = LockRules()
    traits: Traits = Traits()
    config: ConfigRules = ConfigRules()
    geometries: Geometries = ()

    @property
    def is_active(self) -> bool:
        """Whether containers can ask for this family's cards at all."""
        return bool(self.resources.count)

    @property
    def divides(self) -> bool:
        """Whether cards whose mode says so are given away in instances."""
        return bool(self.write.instances)

    @property
    def tells_one_card(self) -> bool:
        """Whether what a decision writes besides the device lists has room for only one card."""
        marks = ("{index}", "{cores}", "{memory_units}")
        return any(mark in text for text in self.write.extra.values() for mark in marks)

    @property
    def node_keys(self) -> tuple[str, ...]:
        """The node annotations that say which cards a node has."""
        keys = (self.cards.register, self.cards.pair_scores, self.health.handshake, *self.cards.annotations)
        return tuple(key for key in keys if key)

    @property
    def node_writes(self) -> frozenset[str]:
        """The node annotations that a scheduler writes: lock, handshake, and the register of cards that are gone."""
        register = self.cards.register if self.health.clean_register else ""
        return frozenset(key for key in (self.lock.key, self.health.handshake, register) if key)

    @property
    def owned_keys(self) -> frozenset[str]:
        """The pod annotations that only a scheduler may write."""
        write = self.write
        keys = (write.to_allocate, write.allocated, write.instances, *write.extra, *write.owned)
        return frozenset(key for key in keys if key)

    def owned_among(self, keys: Iterable[str]) -> set[str]:
        """Return those pod annotations that only a scheduler may write."""
        owned = self.owned_keys
        return {key for key in keys if key in owned or key.startswith(self.write.owned_prefixes)}
