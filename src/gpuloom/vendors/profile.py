"""What is known about one accelerator family: a frozen value read from its TOML file (vendors 3).

Every field has the meaning that its docstring gives, for all families; where a family really differs, a field names a
hook, a small function of :mod:`gpuloom.vendors.hooks`.
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
"""An amount, or -1 for what stands elsewhere."""


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

    recognize      where a container must name the count to be one of this family's
    read_from      where amounts are read
    reader         hook that reads the request instead of the common rules
    forgives_cores whether cores that are no whole number count as the default; else nothing is asked for (vendors 1.8)
    """

    default_cards: Natural32 = 0
    default_memory_mib: Natural32 = 0
    default_cores: Natural32 = 0
    memory_factor: Natural32 = 1
    recognize: Literal["limits", "limits-or-requests"] = "limits"
    read_from: Literal["limits-then-requests", "limits"] = "limits-then-requests"
    reader: str = ""
    forgives_cores: bool = False


class ContainerChanges(_Part, frozen=True):
    """What the webhook adds to containers; ``mutate`` names the hook that does."""

    mutate: str = ""
    hide_cards: bool = False
    core_policy: str = ""
    runtime_class: str = ""


class CardSource(_Part, frozen=True):
    """Where a node says which cards it has.

    source       ``register``: an annotation; ``capacity``: so many cards as the node's capacity of ``unit`` gives
    register     that annotation's key, ``pair_scores`` the one that says how well cards are linked
    reader       hook that reads the cards instead
    unit         which resource's capacity is divided by ``per_card``
    id           of cards from capacity, with ``{node}`` and ``{index}``
    count, memory_mib, cores  of each card from capacity; memory 0 means an equal part of the capacity of memory
    numa_halves  whether the second half of the cards is on NUMA node 1
    annotations, labels  what else of the node the reader looks at
    set_cores    cores of registered cards whatever they say, 0 for as registered
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

    kind       ``handshake``: a question and answer in an annotation; ``capacity``: the node's capacity of the count is
               above zero; ``annotation``: the register annotation is there; ``always``
    handshake  that annotation's key
    counted    whether the kubelet's count going to zero takes the cards away at once
    clean_register  whether the register annotation is removed when the cards can no longer be used
    """

    kind: Literal["handshake", "capacity", "annotation", "always"] = "always"
    handshake: str = ""
    counted: bool = False
    clean_register: bool = False


class KeyPair(_Part, frozen=True):
    """Two pod annotations that narrow a choice: only these, and none of these."""

    use: str
    nouse: str


class SelectKeys(_Part, frozen=True):
    """Pod annotations that narrow the choice of cards, or say how the pod shares one.

    uuids      lists of card ids, every pair must be satisfied
    types      lists of parts of model names
    numa_bind  all cards of a container on one NUMA node
    mode       modes of cards that will do
    app_class  ``online`` or ``offline``: pods of both kinds do not share a card with pods of neither
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
    same_card   ``always``, or the name of the switch by which all containers of a pod must get the same card
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
    cap_cores  whether a card counts as full at most where more cores are given away than it registered
    sign  ``better-is-higher``: subtracted under the policy ``spread``, where the lowest score wins; ``neutral``:
          decides before all else; ``as-is``: the function looks at the policy itself
    """

    hook: str = ""
    cap_cores: bool = False
    sign: Literal["better-is-higher", "neutral", "as-is"] = "better-is-higher"


class ShareRules(_Part, frozen=True):
    """What a share is written with, where that is not what was asked for; below 0 means as asked for.

    typed_by_model  whether a share names the card's model instead of the vendor's word
    scaled_cores    whether cores are asked for in per cent and given in units of the card's own; quotas count units
    """

    memory_mib: _Kept = -1
    cores: _Kept = -1
    typed_by_model: bool = False
    scaled_cores: bool = False


class LockRules(_Part, frozen=True):
    """The node lock that a Bind takes, none without a key.

    names_holder  whether the value names the pod
    expires_s     after which a lock no longer counts, 0: as the scheduler's flag says
    """

    key: str = ""
    names_holder: bool = True
    expires_s: Natural32 = 0


class WriteKeys(_Part, frozen=True):
    """Pod annotations that a decision writes.

    to_allocate, allocated  the device lists, the first one empty where no plugin reads it
    instances               parts of divided cards
    extra                   more keys; values may hold {node}, {index}, {indexes}, {cores}, {memory_units}, {time_s}
                            and {time_ns}, taken from the first card of the first container that has one
    annotate                hook that makes more, ``recall`` one that reads what the device list leaves out
    owned                   the keys of those, ``owned_prefixes`` how keys begin of which there is one a container
    """

    to_allocate: str
    allocated: str
    instances: str = ""
    extra: dict[str, str] = {}
    annotate: str = ""
    recall: str = ""
    owned: tuple[str, ...] = ()
    owned_prefixes: tuple[str, ...] = ()


class Template(_Part, frozen=True):
    """A size in which a card can be given away; ``cpus`` of the card itself."""

    name: str
    memory_mib: Natural32
    cores: Natural32 = 0
    cpus: Natural32 = 0


class Traits(_Part, frozen=True):
    """Numbers and switches that hooks of a family read.

    allocatable_mib, capacity_mib  memory of a card that containers may have, and that it has
    templates    sizes by memory
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
    """Where ``device-config.yaml`` speaks of the family.

    section     name of the section, ``keys`` which of its keys sets which field; the first key that is not empty counts
    each        the section is a list, an entry for each chip; ``under`` names the key of that list in newer files,
                beside which the keys of ``beside`` stand
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
"""Parts of model names, and the ways in which cards of such a model can be cut."""


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
        """Whether cards that say so are given away in instances."""
        return bool(self.write.instances)

    @property
    def tells_one_card(self) -> bool:
        """Whether what a decision writes beside the device lists has room for one card only."""
        marks = ("{index}", "{cores}", "{memory_units}")
        return any(mark in text for text in self.write.extra.values() for mark in marks)

    @property
    def node_keys(self) -> tuple[str, ...]:
        """The node annotations that say which cards there are."""
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
