"""The columns of every list."""

import time
from typing import TypeVar

from msgspec.structs import replace

from gpuloom.cli.asking.printing import Column, Table, Tone
from gpuloom.engine.explanation.values import Amount, ContainerRequest
from gpuloom.model.uuids import card_id
from gpuloom.web.views.values import CardView, ModelView, NodeView, PendingView, PodView, QuotaView, WorkloadView
from gpuloom.wire.errors import WireError
from gpuloom.wire.words import decode_time

_Measured = TypeVar("_Measured", NodeView, CardView, PodView)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_BAR_CELLS = 10
_FULL = 100


def format_age(seconds: float) -> str:
    """Write a duration as kubectl does, in its largest units: ``45s``, ``12m``, ``5h``, ``3d``."""
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE_S:
        return f"{whole}s"
    if whole < 2 * _HOUR_S:
        return f"{whole // _MINUTE_S}m"
    if whole < 2 * _DAY_S:
        return f"{whole // _HOUR_S}h"
    return f"{whole // _DAY_S}d"


def format_share(amount: Amount) -> str:
    """Write how much of something is given away: ``12,288/46,068 (26%)``."""
    return f"{amount.used:,}/{amount.total:,} ({per_cent(amount)}%)"


def per_cent(amount: Amount) -> int:
    """Return how much of something is given away; 100 only where nothing is left."""
    return amount.used * _FULL // amount.total if amount.total else 0


def draw_bar(amount: Amount) -> str:
    """Draw how much of something is given away; whatever is used shows."""
    filled = min(amount.used * _BAR_CELLS // amount.total, _BAR_CELLS) if amount.total else 0
    filled = max(filled, 1) if amount.used else filled
    return "#" * filled + "." * (_BAR_CELLS - filled)


def format_age_since(since: str) -> str:
    """Say how long ago an RFC 3339 time is, nothing if it is none."""
    try:
        return format_age(time.time() - decode_time(since).timestamp())
    except WireError:
        return ""


def _without_moment(item: _Measured) -> _Measured:
    """Leave out when the use of something was measured."""
    return replace(item, used=item.used and replace(item.used, at=""))


def _memory_used(item: CardView | PodView) -> str:
    return f"{item.used.memory.used:,}" if item.used and item.used.memory else ""


def _load(item: CardView | PodView) -> str:
    return str(item.used.busy_percent) if item.used and item.used.busy_percent is not None else ""


def _state(card: CardView) -> str:
    states = [] if card.healthy else ["unhealthy"]
    states += ["cordoned"] if card.cordoned else []
    states += ["closed"] if card.closed else []
    return ",".join(states) or "ok"


def _state_tone(card: CardView) -> Tone:
    return "bad" if not card.healthy else "warn" if card.cordoned or card.closed else ""


def _node_tone(node: NodeView) -> Tone:
    return "warn" if node.problem or node.cordoned or node.closed else "bad" if node.unhealthy else ""


def _node_state(node: NodeView) -> str:
    parts = [node.problem] if node.problem else []
    parts += [f"{node.unhealthy} unhealthy"] if node.unhealthy else []
    parts += [f"{node.cordoned} cordoned"] if node.cordoned else []
    parts += [f"{node.closed} closed"] if node.closed else []
    return ", ".join(parts) or "ok"


def _lock(node: NodeView) -> str:
    return f"{node.lock.pod.full_name} since {node.lock.since}" if node.lock else ""


def _uuids(pod: PodView) -> str:
    return ",".join(dict.fromkeys(share.uuid for share in pod.shares))


def tell_asks(pending: PendingView) -> str:
    """Write what a pod asks for, a container after another: ``2x8000MiB/50%``; no per cent where no limit is asked."""
    return "+".join(map(_tell_ask, pending.asks))


def _tell_ask(ask: ContainerRequest) -> str:
    if ask.core_count:
        return f"{ask.core_count}xcore"
    memory = f"{ask.memory_mib}MiB" if ask.memory_mib else f"{ask.memory_percentage}%mem"
    return f"{ask.cards}x{memory}" + (f"/{ask.cores}%" if ask.cores else "")


def _waiting(pending: PendingView) -> str:
    if pending.waiting_s is None or pending.waiting_s < 0:  # an older scheduler says -1
        return format_age_since(pending.created)
    return format_age(pending.waiting_s)


def _why(pending: PendingView) -> str:
    nomination = pending.nomination
    room = f"room is being made for it on {nomination.node}; " if nomination and nomination.has_room else ""
    return room + pending.headline


def tell_memory(shape: WorkloadView) -> str:
    """Write the memory that is asked of each card."""
    return f"{shape.memory_mib:,} MiB" if shape.memory_mib else f"{shape.memory_percentage} %"


NODES: Table[NodeView] = Table(
    (
        Column("NAME", lambda node: node.name),
        Column("CARDS", lambda node: str(node.cards)),
        Column("PODS", lambda node: str(node.pods)),
        Column("MEMORY(MiB)", lambda node: format_share(node.memory) if node.cards else ""),
        Column("CORES(%)", lambda node: format_share(node.cores) if node.cards else ""),
        Column("SHARES", lambda node: f"{node.shares.used}/{node.shares.total}" if node.cards else ""),
        Column("MODEL", lambda node: ",".join(node.models)),
        Column("SCORE", lambda node: f"{node.score:.2f}", is_wide=True),
        Column("LOCKED BY", _lock, is_wide=True),
        Column("STATE", _node_state, tone=_node_tone),
    ),
    lambda node: f"node/{node.name}",
    "There are no nodes.",
    steady=lambda node: replace(_without_moment(node), stranded=node.stranded and replace(node.stranded, at="")),
)

CARDS: Table[CardView] = Table(
    (
        Column("NODE", lambda card: card.node),
        Column("INDEX", lambda card: str(card.index)),
        Column("UUID", lambda card: card.uuid),
        Column("MODEL", lambda card: card.model),
        Column("MEMORY(MiB)", lambda card: format_share(card.memory)),
        Column("CORES(%)", lambda card: f"{card.cores.used}/{card.cores.total}"),
        Column("SHARES", lambda card: f"{card.shares.used}/{card.shares.total}"),
        Column("MODE", lambda card: card.mode, is_wide=True),
        Column("NUMA", lambda card: str(card.numa), is_wide=True),
        Column("USED(MiB)", _memory_used, is_wide=True),
        Column("LOAD(%)", _load, is_wide=True),
        Column("STATE", _state, tone=_state_tone),
    ),
    lambda card: f"card/{card.uuid}",
    "No node has registered a card: see gpuloom nodes.",
    id=lambda card: f"{card.node}/{card.uuid}",
    steady=_without_moment,
)

PODS: Table[PodView] = Table(
    (
        Column("NAMESPACE", lambda pod: pod.pod.namespace),
        Column("NAME", lambda pod: pod.pod.name),
        Column("STATE", lambda pod: pod.standing),
        Column("NODE", lambda pod: pod.node),
        Column("CARDS", lambda pod: str(len({card_id(share.uuid) for share in pod.shares}))),
        Column("MEMORY(MiB)", lambda pod: f"{pod.memory_mib:,}"),
        Column("CORES(%)", lambda pod: str(pod.cores)),
        Column("SINCE", lambda pod: format_age_since(pod.since), is_age=True),
        Column("USED(MiB)", _memory_used, is_wide=True),
        Column("LOAD(%)", _load, is_wide=True),
        Column("UUIDS", _uuids, is_wide=True),
    ),
    lambda pod: f"pod/{pod.pod.name}",
    "No pod has a card.",
    id=lambda pod: pod.pod.full_name,
    steady=_without_moment,
)

PENDING: Table[PendingView] = Table(
    (
        Column("NAMESPACE", lambda pod: pod.pod.namespace),
        Column("NAME", lambda pod: pod.pod.name),
        Column("WAITS", _waiting, is_age=True),
        Column("ASKS", tell_asks),
        Column("WHY", _why, tone=lambda pod: "good" if pod.fits else "warn"),
    ),
    lambda pod: f"pod/{pod.pod.name}",
    "No pod waits for a card.",
    id=lambda pod: pod.pod.full_name,
    steady=lambda pod: replace(pod, waiting_s=None),
)

QUOTAS: Table[QuotaView] = Table(
    (
        Column("NAMESPACE", lambda quota: quota.namespace),
        Column("RESOURCE", lambda quota: quota.resource),
        Column("USED", lambda quota: f"{quota.used:,}"),
        Column("LIMIT", lambda quota: "none" if quota.limit is None else f"{quota.limit:,}"),
        Column("LEFT", lambda quota: "" if quota.limit is None else f"{quota.limit - quota.used:,}"),
        Column("UNIT", lambda quota: quota.unit),
    ),
    lambda quota: f"quota/{quota.namespace}/{quota.resource}",
    "Nobody holds or limits cards.",
)

WORKLOAD: Table[WorkloadView] = Table(
    (
        Column("PODS", lambda shape: f"{shape.part:.1%}"),
        Column("VENDOR", lambda shape: shape.vendor),
        Column("CARDS", lambda shape: str(shape.cards) if shape.cards else ""),
        Column("MEMORY", lambda shape: tell_memory(shape) if shape.cards else ""),
        Column("CORES(%)", lambda shape: str(shape.cores) if shape.cards else ""),
        Column("CPU", lambda shape: f"{shape.cpu_milli / 1000:g}"),
        Column("MODELS", lambda shape: ", ".join([*shape.models, *(f"not {model}" for model in shape.not_models)])),
    ),
    lambda shape: f"workload/{shape.vendor}",
    "No pods are expected.",
    id=lambda shape: repr(replace(shape, part=0.0)),
)

MODELS: Table[ModelView] = Table(
    (
        Column("MODEL", lambda model: model.model),
        Column("CARDS", lambda model: str(model.cards)),
        Column("NODES", lambda model: str(model.nodes)),
        Column("MEMORY(MiB)", lambda model: f"{draw_bar(model.memory)} {format_share(model.memory)}"),
        Column("CORES(%)", lambda model: f"{draw_bar(model.cores)} {format_share(model.cores)}"),
        Column("SHARES", lambda model: format_share(model.shares)),
    ),
    lambda model: f"model/{model.model}",
    "No node has registered a card: see gpuloom nodes.",
)
