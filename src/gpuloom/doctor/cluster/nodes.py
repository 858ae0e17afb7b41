"""Judges what nodes say of their cards, and what is left on them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from gpuloom.doctor.checks import Unseen, require
from gpuloom.doctor.cluster.facts import ClusterFacts
from gpuloom.doctor.cluster.installation import ExtenderFlags
from gpuloom.doctor.cluster.pods import NODE_LABELS, list_our_sets, tell_labels
from gpuloom.doctor.findings import Fault, Problem, Severity
from gpuloom.engine.state.unserved import is_unserved
from gpuloom.model.card import Card
from gpuloom.scheduler.bind.nodelock.owner import LocalKnowledge, is_allocating, is_over
from gpuloom.scheduler.nodes.health import ANSWER_LIMIT
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.handshake import decode_handshake
from gpuloom.wire.keys import BIND_TIME, NODE_SERVES
from gpuloom.wire.lock import NodeLock, decode_lock
from gpuloom.wire.objects import Node
from gpuloom.wire.quantity import decode_strict_integer
from gpuloom.wire.register import NoCardsError, read_register
from gpuloom.wire.words import decode_unix_time

_DELETED = "Deleted_"
_RESTART = "restart the device plugin's pod of this node, and look at its log if the finding stays"


def judge_registers(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which nodes do not tell their cards in a way that can be read."""
    profiles = [one for one in facts.catalog if one.cards.register and not one.cards.reader]
    selectors = _list_selectors(facts)
    for node in require(facts.nodes):
        for profile in profiles:
            yield from _judge_register(node, profile, selectors if profile.word == facts.nvidia.word else ())


def _list_selectors(facts: ClusterFacts) -> Sequence[Mapping[str, str]]:
    """Return by which labels device plugins of ours choose their nodes; the usual one where none does."""
    sets = () if isinstance(facts.daemon_sets, Unseen) else list_our_sets(facts)
    return [one.node_selector for one in sets if one.node_selector] or [NODE_LABELS]


def _judge_register(node: Node, profile: Profile, selectors: Sequence[Mapping[str, str]]) -> Iterator[Problem]:
    try:
        read_register(node.annotations, profile.cards.register)
    except NoCardsError as error:
        selector = next((one for one in selectors if one.items() <= node.labels.items()), None)
        if selector is not None:
            text = f"is labelled {tell_labels(selector)}, but has registered no card ({error})"
            remedy = "run gpuloom doctor on the node; take the label off if it has no cards"
            yield _about(node, text, Fault.MACHINE, remedy)
    except WireError as error:
        text = f"its annotation {profile.cards.register} cannot be read: {error}"
        yield _about(node, text, Fault.GPULOOM, f"another program may have written it: {_RESTART}")


def judge_offers(facts: ClusterFacts) -> Iterator[Problem]:
    """Say where the kubelet offers something else than was registered."""
    resource = facts.nvidia.resources.count
    for node in require(facts.nodes):
        offered = facts.count_offered(node)
        cards = _read_cards(node, facts)
        if cards is None:
            if offered:
                text = f"offers {offered} of {resource}, but has registered no card with the scheduler"
                remedy = "another device plugin offers them, see check other-plugins; or start gpuloom's there"
                yield _about(node, text, Fault.INSTALLATION, remedy)
            continue
        registered = sum(card.count for card in cards)
        if offered != registered:
            text = f"offers {offered} of {resource}, but its {len(cards)} registered cards are {registered} shares"
            remedy = (
                "another device plugin registered the resource last, see check other-plugins; or the kubelet was not "
                f"told: {_RESTART}"
            )
            yield _about(node, text, Fault.INSTALLATION, remedy)


def judge_handshakes(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which nodes' plugins are taken for gone."""
    profiles = [one for one in facts.catalog if one.health.kind == "handshake"]
    for node in require(facts.nodes):
        for profile in profiles:
            if not _read_allocatable(node, profile.resources.count):
                yield from _judge_handshake(node, profile.health.handshake, facts.now)


def _judge_handshake(node: Node, key: str, now: datetime) -> Iterator[Problem]:
    text = node.annotations.get(key, "")
    handshake = decode_handshake(text, UTC)
    if text.startswith(_DELETED):
        yield _about(node, f"its cards were taken away by the scheduler ({key}: {text})", Fault.MACHINE, _RESTART)
    elif handshake.requesting and handshake.since is None:
        told, remedy = f"the time in its annotation {key} cannot be read: {text}", _remove(node, key)
        yield _about(node, told, Fault.GPULOOM, remedy, Severity.WARNING)
    elif handshake.since is not None and now - handshake.since >= ANSWER_LIMIT:
        told = f"nobody has answered the scheduler since {handshake.since:%Y-%m-%d %H:%M:%S}, and it offers nothing"
        yield _about(node, told, Fault.MACHINE, _RESTART)


def judge_locks(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which node locks keep pods out although nobody is being started."""
    default_s = (facts.flags or ExtenderFlags()).lock_timeout_s
    limits_s = {one.lock.key: one.lock.expires_s or default_s for one in facts.catalog if one.lock.key}
    for node in require(facts.nodes):
        for key, limit_s in limits_s.items():
            if key in node.annotations:
                yield from _judge_lock(node, key, limit_s, facts)


def judge_unserved(facts: ClusterFacts) -> Iterator[Problem]:
    """Say which nodes start no other pod because their device plugin has not served one that is bound there."""
    limit_s = (facts.flags or ExtenderFlags()).lock_timeout_s
    lists = {key for one in facts.catalog if one.lock.key for key in facts.catalog.lists_under(one.lock.key)}
    nodes = {node.name: node for node in require(facts.nodes) if NODE_SERVES in node.annotations}
    for pod in require(facts.pods):
        node = nodes.get(pod.spec.node_name)
        bound_at = decode_unix_time(pod.annotations.get(BIND_TIME, ""))
        if node is None or bound_at is None or not is_unserved(pod, lists):
            continue
        age_s = facts.now.timestamp() - bound_at
        if age_s > limit_s:
            told = f"has not started pod {pod.full_name} for {int(age_s)} s, and starts no other with cards meanwhile"
            free = f"kubectl -n {pod.namespace} delete pod {pod.name}"
            remedy = f"see whether kubelet and device plugin run there; to give the pod up: {free}"
            yield _about(node, told, Fault.MACHINE, remedy)


def _judge_lock(node: Node, key: str, limit_s: float, facts: ClusterFacts) -> Iterator[Problem]:
    text = node.annotations[key]
    try:
        lock = decode_lock(text)
    except WireError as error:
        yield _about(node, f"its lock {text!r} cannot be read: {error}", Fault.GPULOOM, _remove(node, key))
        return
    age = facts.now - lock.time
    owner = require(facts.owners).get((lock.namespace, lock.name)) if lock.name else None
    remedy = f"the scheduler takes it over by itself; to hurry: {_remove(node, key)}"
    if age > timedelta(seconds=limit_s):
        told = f"{_tell_lock(lock, age)}, longer than {limit_s:g} s"
        if owner is not None and is_allocating(owner, node.name):
            told += ": that pod waits for the node's device plugin, and keeps the lock as long as it exists"
            free = f"kubectl -n {lock.namespace} delete pod {lock.name}"
            yield _about(
                node, told, Fault.MACHINE, f"see whether the device plugin runs there; to give the pod up: {free}"
            )
        else:
            yield _about(node, told, Fault.GPULOOM, f"see whether the scheduler runs: {remedy}")
    elif lock.name and is_over(lock, owner, node.name, facts.now, LocalKnowledge(), facts.catalog.lists_under(key)):
        told = f"{_tell_lock(lock, age)}, although that pod is over or gone"
        yield _about(node, told, Fault.GPULOOM, remedy, Severity.WARNING)


def _remove(node: Node, key: str) -> str:
    return f"kubectl annotate node {node.name} {key}-"


def _tell_lock(lock: NodeLock, age: timedelta) -> str:
    owner = f"pod {lock.namespace}/{lock.name}" if lock.name else "an unnamed pod"
    return f"is locked for {owner} since {int(age.total_seconds())} s"


def _about(node: Node, text: str, fault: Fault, remedy: str, severity: Severity = Severity.ERROR) -> Problem:
    return Problem(f"node {node.name}", text, fault, remedy, severity)


def _read_cards(node: Node, facts: ClusterFacts) -> tuple[Card, ...] | None:
    try:
        return read_register(node.annotations, facts.nvidia.cards.register)
    except WireError:
        return None


def _read_allocatable(node: Node, resource: str) -> int:
    return decode_strict_integer((node.status.allocatable or {}).get(resource, 0)) or 0
