"""What an explanation consists of. The same structs are its JSON: names in camelCase, what is empty left out."""

from typing import Annotated, Literal

import msgspec

Outcome = Literal[
    "fits", "does not fit", "held back", "reserved", "bound", "ended", "foreign", "asks for no card", "cannot be read"
]
"""How a pod stands; held back is one that nobody tries to place, whatever is free, ended one that runs no more."""
Standing = Literal["satisfied", "in the way", "held"]
"""Of one of several vendors: some node would do, none would, or the pod has its cards."""
PartName = Literal["slots", "cores", "memory"]

Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""A time in RFC 3339, empty if it is not known."""


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of everything that is told to people."""


class PodName(Value, frozen=True, kw_only=True):
    """A pod; both names are empty where whoever asks may not see it."""

    namespace: str = ""
    name: str = ""

    @property
    def full_name(self) -> str:
        """``namespace/name``, or what stands for a pod that may not be seen."""
        return f"{self.namespace}/{self.name}" if self.name else "a pod of another namespace"


class ContainerRequest(Value, frozen=True, kw_only=True):
    """What one container asks of each of its cards: an amount of memory (MiB), or a percentage if that is 0.

    ``core_count`` is a number of cores that is asked for instead, of as many cards as have them.
    """

    container: str
    phase: str = "regular"
    vendor: str = ""
    cards: int = 1
    memory_mib: int = 0
    memory_percentage: int = 0
    cores: int = 0
    core_count: int = 0


class Given(Value, frozen=True, kw_only=True):
    """A share of one card that a container has; ``instance`` names the part of a divided card."""

    container: str
    uuid: str
    memory_mib: int
    cores: int
    instance: str = ""


class Held(Value, frozen=True, kw_only=True):
    """What the pod has: on which node, which shares, since when (RFC 3339, empty if that was not decided here)."""

    node: str
    shares: tuple[Given, ...] = ()
    decided_at: Moment = ""


class ScorePart(Value, frozen=True, kw_only=True):
    """One term of a score: what is in use (with the request, for cards) of what there is, and the points for it."""

    name: PartName
    used: int
    total: int
    points: float


class Amount(Value, frozen=True, kw_only=True):
    """How much of something is allocated, whether it is used or not."""

    used: int
    total: int

    @property
    def free(self) -> int:
        """What is left; less than nothing where more is given than there is."""
        return self.total - self.used


class Closer(Value, frozen=True, kw_only=True):
    """A pod that closes a card because what it holds of it cannot be read, and why; no why where it may not be seen."""

    pod: PodName
    cause: str = ""

    @property
    def text(self) -> str:
        """Who and why, in one line."""
        return f"{self.pod.full_name}: {self.cause}" if self.cause else self.pod.full_name


class CardVerdict(Value, frozen=True, kw_only=True):
    """One card asked for one container: the first rule that rejects it with the numbers behind, or that it fits.

    ``reason`` is empty for a card that fits; ``also`` are the reasons that would come next. Memory in MiB, cores in
    per cent of the card.
    """

    uuid: str
    index: int = 0
    model: str = ""
    mode: str = ""
    numa: int = 0
    shares: Amount
    memory: Amount
    cores: Amount
    reason: str = ""
    why: str = ""
    also: tuple[str, ...] = ()
    closed_by: tuple[Closer, ...] = ()
    chosen: bool = False
    score: float = 0.0
    score_parts: tuple[ScorePart, ...] = ()


class NodeVerdict(Value, frozen=True, kw_only=True):
    """One node: whether the pod fits, HAMi's text if not, and every card for the container that decides it.

    ``causes`` concern the node as a whole: no cards known and why, closed by its administrator, down. ``score`` is
    HAMi's node score.
    """

    name: str
    fits: bool
    refusal: str = ""
    causes: tuple[str, ...] = ()
    score: float = 0.0
    score_parts: tuple[ScorePart, ...] = ()
    container: str = ""
    cards: tuple[CardVerdict, ...] = ()


class ReasonCount(Value, frozen=True, kw_only=True):
    """How many nodes and cards give one reason; ``cards`` is 0 for a reason of whole nodes."""

    reason: str
    meaning: str
    nodes: int
    cards: int = 0


class HostReason(Value, frozen=True, kw_only=True):
    """How many nodes kube-scheduler's filters refuse for one reason, in its words; a node may have several."""

    text: str
    nodes: int


class NodeGroup(Value, frozen=True, kw_only=True):
    """Nodes with the same cards: how many, how many of them fit, what the others say, and some names.

    ``reasons`` are those of cards, ``barred`` why other nodes are not offered at all.
    """

    name: str
    nodes: int
    fitting: int
    reasons: tuple[ReasonCount, ...] = ()
    barred: tuple[HostReason, ...] = ()
    names: tuple[str, ...] = ()


class RefusedNodes(Value, frozen=True, kw_only=True):
    """Nodes that say the same, in HAMi's words; not all of their names."""

    text: str
    nodes: int
    names: tuple[str, ...] = ()


class Ranked(Value, frozen=True, kw_only=True):
    """A node that fits."""

    node: str
    score: float


class Policy(Value, frozen=True, kw_only=True):
    """How nodes and cards are chosen among those that fit."""

    node: str
    cards: tuple[str, ...] = ()
    weights: dict[str, int] = {}
    numa_bind: bool = False


class Remedy(Value, frozen=True, kw_only=True):
    """One change, or several of one node together, with which the pod would fit; tried out with the same rules.

    ``nodes`` are some of the ``node_count`` places where it is known to help; ``pods`` would have to leave. ``amount``
    is in the unit of what is changed, ``model`` that of the cards, empty where they are of several. ``text`` says all
    of it in one sentence.
    """

    change: str
    text: str
    amount: int = 0
    model: str = ""
    nodes: tuple[str, ...] = ()
    node_count: int = 0
    pods: tuple[PodName, ...] = ()


class HostVerdict(Value, frozen=True, kw_only=True):
    """What kube-scheduler's own filters say beside the cards.

    Of the nodes ``with_cards`` that would do, ``taking`` take the pod; ``reasons`` are those of the others, and where
    none takes it, ``further`` are what kube-scheduler would say once these are mended. Where no node's cards would do,
    both are of all nodes, if none takes the pod.
    ``shortage`` says of what the pod asks for more than any of them has free.
    ``unjudged`` is what was not looked at although kube-scheduler does, ``not_looked_at`` why nothing was.
    ``last_words`` is what kube-scheduler said last about the pod.
    """

    with_cards: int = 0
    taking: int = 0
    reasons: tuple[HostReason, ...] = ()
    further: tuple[HostReason, ...] = ()
    shortage: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    not_looked_at: str = ""
    last_words: str = ""


class VendorVerdict(Value, frozen=True, kw_only=True):
    """What one of several vendors says of a pod: how many of its cards are asked for, and how many nodes would do.

    ``reasons`` are those of the other nodes. A pod that has its cards is told of by their number alone.
    """

    vendor: str
    standing: Standing
    cards: int = 0
    candidates: int = 0
    fitting: int = 0
    reasons: tuple[ReasonCount, ...] = ()


class Explanation(Value, frozen=True, kw_only=True):
    """Where one pod can run and where not, and why; large clusters are summed up, ``nodes`` holds details.

    ``candidates`` are the nodes looked at, ``fitting`` how many of them fit. ``ranking`` is best first and may be cut,
    as may be the lists of names. ``vendors`` are there where a pod asks several; remedies and cards are those of one of
    them then, of which the fewest nodes would do, and nodes tell what all say together. ``host`` tells of all that
    kube-scheduler checks beside cards; it is absent where nobody asks for a node any more. ``why`` has the headline and
    what says most about it, in two sentences.
    """

    pod: PodName
    outcome: Outcome
    headline: str
    why: str = ""
    asks: tuple[ContainerRequest, ...] = ()
    held: Held | None = None
    policy: Policy | None = None
    candidates: int = 0
    fitting: int = 0
    ranking: tuple[Ranked, ...] = ()
    reasons: tuple[ReasonCount, ...] = ()
    refused: tuple[RefusedNodes, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    nodes: tuple[NodeVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    vendors: tuple[VendorVerdict, ...] = ()
    host: HostVerdict | None = None
