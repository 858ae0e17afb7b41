"""The structs of the views; their JSON is the API. Memory in MiB, cores in per cent of a card."""

from typing import Literal

from gpuloom.engine.explanation.values import (
    Amount,
    Closer,
    ContainerRequest,
    Explanation,
    Given,
    HostVerdict,
    Moment,
    PodName,
    Ranked,
    ReasonCount,
    RefusedNodes,
    Value,
)
from gpuloom.model.waiting import Cause

Standing = Literal["reserved", "bound"]


class UsedView(Value, frozen=True, kw_only=True):
    """What is really in use of cards, as monitors said at a time; what is not known is absent, never zero.

    ``memory`` and ``busyPercent`` (load, on average) are of so many ``cards``, of several nodes as of the oldest time.
    ``memoryHour`` and ``busyHour`` are 60 points in per cent of the memory and load, ``pointSeconds`` apart (an hour
    where that is 60), oldest first, null where not known; they are not in lists. All of this is absent where no
    monitors are asked.
    """

    memory: Amount | None = None
    busy_percent: int | None = None
    cards: int = 0
    at: Moment = ""
    memory_hour: tuple[int | None, ...] = ()
    busy_hour: tuple[int | None, ...] = ()
    point_seconds: int = 0


class StrandedView(Value, frozen=True, kw_only=True):
    """Free shares, in cards, that pods to come cannot use on average: ``cards`` of all that is ``free``, and why.

    They ask for ``noCards``, accept ``otherModels`` alone, ask for more CPU than the node has free (``noCpu``), or for
    larger ``pieces`` or more cards than are free. ``percentHours`` are per cent of what was free, a point each
    ``pointSeconds``, oldest first, null where not known; they are not of single nodes.
    """

    cards: float
    free: float
    no_cards: float = 0.0
    other_models: float = 0.0
    no_cpu: float = 0.0
    pieces: float = 0.0
    at: Moment = ""
    percent_hours: tuple[int | None, ...] = ()
    point_seconds: int = 0


class Holder(Value, frozen=True, kw_only=True):
    """A pod on a card: how much of it, for which containers, since when (RFC 3339, empty if not known)."""

    pod: PodName
    standing: Standing
    containers: tuple[str, ...] = ()
    memory_mib: int = 0
    cores: int = 0
    shares: int = 0
    instance: str = ""
    since: Moment = ""
    used: UsedView | None = None


class CardView(Value, frozen=True, kw_only=True):
    """One card and what is allocated of it; ``holders`` and ``closed_by`` only where they were asked for.

    ``closed`` where somebody may hold the card whose share of it cannot be read.
    """

    node: str
    uuid: str
    vendor: str = ""
    index: int = 0
    model: str = ""
    mode: str = ""
    numa: int = 0
    healthy: bool = True
    cordoned: bool = False
    closed: bool = False
    shares: Amount
    memory: Amount
    cores: Amount
    holders: tuple[Holder, ...] = ()
    closed_by: tuple[Closer, ...] = ()
    used: UsedView | None = None


class LockView(Value, frozen=True, kw_only=True):
    """Who is being handed to the node's device plugin, since when (RFC 3339)."""

    pod: PodName
    since: Moment = ""


class NodeView(Value, frozen=True, kw_only=True):
    """One node with the sums over its cards; ``problem`` says why it has none here, or why no pod comes."""

    name: str
    cards: int = 0
    unhealthy: int = 0
    cordoned: int = 0
    closed: int = 0
    models: tuple[str, ...] = ()
    shares: Amount
    memory: Amount
    cores: Amount
    score: float = 0.0
    pods: int = 0
    problem: str = ""
    lock: LockView | None = None
    used: UsedView | None = None
    stranded: StrandedView | None = None


class NominationView(Value, frozen=True, kw_only=True):
    """A pod for which room is being made on a node, since when (RFC 3339).

    ``cards`` are those that it would get as things are now, ``waits_for`` pods that are to leave the node and have not
    left yet.
    """

    pod: PodName
    node: str
    cards: tuple[str, ...] = ()
    priority: int = 0
    since: Moment = ""
    waits_for: tuple[PodName, ...] = ()

    @property
    def has_room(self) -> bool:
        """Whether it would get cards; not where a more important pod has them or goes before it."""
        return bool(self.cards)


class NodeDetail(Value, frozen=True, kw_only=True):
    """One node, each of its cards with its holders, and pods for which room is being made on it."""

    node: NodeView
    cards: tuple[CardView, ...] = ()
    nominations: tuple[NominationView, ...] = ()


class PodView(Value, frozen=True, kw_only=True):
    """A pod that has cards; ``since`` is when that was decided (RFC 3339, empty if not known).

    A container of which the name is not known is numbered: ``#0`` is the first, init containers come first.
    """

    pod: PodName
    uid: str = ""
    node: str
    standing: Standing
    since: Moment = ""
    shares: tuple[Given, ...] = ()
    memory_mib: int = 0
    cores: int = 0
    used: UsedView | None = None


class PendingView(Value, frozen=True, kw_only=True):
    """A pod without cards that wants some: what it asks for and why it waits, as of now.

    ``waiting_s`` are seconds since it was created, as kubectl's AGE. ``cause`` says at whom it lies that it waits:
    ``cards``, gpuloom refused it; ``node``, kube-scheduler refused every node before it asked; ``gate``, a scheduling
    gate; ``scheduler``, it names another scheduler; ``unseen``, kube-scheduler has not tried it yet; ``other``, its
    last words. ``fits`` counts cards and all that kube-scheduler checks beside them; ``host`` tells the two apart.
    ``nomination`` says where room is being made for it.
    """

    pod: PodName
    uid: str = ""
    created: Moment = ""
    waiting_s: float | None = None
    cause: Cause | None = None
    asks: tuple[ContainerRequest, ...] = ()
    headline: str = ""
    fits: bool = False
    reasons: tuple[ReasonCount, ...] = ()
    host: HostVerdict | None = None
    nomination: NominationView | None = None


class QuotaView(Value, frozen=True, kw_only=True):
    """One resource of one namespace: how much its pods hold, and how much they may (absent: no limit).

    ``unit`` is that of both: MiB, per cent of a card, or whole cores or compute units where cards give those out; older
    schedulers do not say it.
    """

    namespace: str
    resource: str
    unit: Literal["MiB", "%", "core", "compute unit", ""] = ""
    used: int
    limit: int | None = None


class WorkloadView(Value, frozen=True, kw_only=True):
    """Pods of one shape that are to be expected: which part of all pods they are, and what one of them asks for.

    ``vendor`` is empty for pods without cards, ``*`` for cards of any. Each card is asked for ``memory_mib`` or, if
    that is 0, for a percentage. ``models`` are those of which one will do, ``not_models`` those that will not.
    """

    part: float
    vendor: str
    cards: int
    memory_mib: int
    memory_percentage: int
    cores: int
    cpu_milli: int
    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()


class ModelView(Value, frozen=True, kw_only=True):
    """All cards of one model."""

    model: str
    cards: int
    nodes: int
    shares: Amount
    memory: Amount
    cores: Amount


class Overview(Value, frozen=True, kw_only=True):
    """The cluster in one look; ``whyNotUsed`` says why use is not known, or not of all nodes.

    ``whyNotStranded`` says why it is not known what is stranded.
    """

    version: str
    scheduler: str
    in_charge: bool
    obstacle: str = ""
    nodes: int
    nodes_with_cards: int
    cards: int
    unhealthy: int
    cordoned: int
    closed: int = 0
    idle: int
    shares: Amount
    memory: Amount
    cores: Amount
    pods_bound: int
    pods_reserved: int
    pods_pending: int
    models: tuple[ModelView, ...] = ()
    used: UsedView | None = None
    why_not_used: str = ""
    stranded: StrandedView | None = None
    why_not_stranded: str = ""


class DecisionView(Value, frozen=True, kw_only=True):
    """A decision as it was made; ``node`` is empty where none fitted. Lists of names may be cut.

    Of ``unexplained`` nodes that did not fit, nobody looked for the reason: that is done where none fits.
    """

    number: int
    at: Moment
    pod: PodName
    node: str = ""
    candidates: int = 0
    fitting: int = 0
    shares: tuple[Given, ...] = ()
    ranking: tuple[Ranked, ...] = ()
    reasons: tuple[ReasonCount, ...] = ()
    refused: tuple[RefusedNodes, ...] = ()
    unexplained: int = 0


class NodeRoom(Value, frozen=True, kw_only=True):
    """How many more such pods a node has room for."""

    node: str
    pods: int


class HeldShare(Value, frozen=True, kw_only=True):
    """What a pod holds of one card."""

    uuid: str
    memory_mib: int = 0
    cores: int = 0


class VictimView(Value, frozen=True, kw_only=True):
    """A pod that would be evicted: its priority, what it holds, since when it runs (RFC 3339, empty if not known).

    ``budgets`` are the PodDisruptionBudgets that protect it, as ``namespace/name``.
    """

    pod: PodName
    priority: int = 0
    started_at: Moment = ""
    held: tuple[HeldShare, ...] = ()
    budgets: tuple[str, ...] = ()


class PreemptionView(Value, frozen=True, kw_only=True):
    """Who would be evicted for a pod, and on which node it would get room then; or why nobody would be.

    ``leaving`` end already, and their cards are counted on. ``broken`` is how many victims a PodDisruptionBudget
    protects, ``not_looked_at`` what is not known of budgets. ``headline`` says all in one line.
    """

    pod: PodName
    priority: int = 0
    headline: str
    node: str = ""
    victims: tuple[VictimView, ...] = ()
    leaving: tuple[PodName, ...] = ()
    broken: int = 0
    not_looked_at: str = ""


class Fits(Value, frozen=True, kw_only=True):
    """Would it fit, where, how many; ``denied`` is what webhook or API server would say against it.

    ``pods`` says how many fit, ``is_least`` that there may be more: counting ended there, or not all nodes tell.
    ``warnings`` are what the webhook would warn of.
    """

    denied: str = ""
    warnings: tuple[str, ...] = ()
    pods: int = 0
    is_least: bool = False
    rooms: tuple[NodeRoom, ...] = ()
    explanation: Explanation | None = None
