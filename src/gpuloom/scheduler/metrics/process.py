"""gpuloom's metrics about itself: is it in charge, does it hear the API server, what waits, what was dropped."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from gpuloom.engine.state.card_table import NO_NODE
from gpuloom.kube import Reflector
from gpuloom.model.cards import BY_UNREADABLE
from gpuloom.model.waiting import CAUSES
from gpuloom.scheduler.clocks import Clocks
from gpuloom.scheduler.defragmentation.controller import DefragmentationCounts
from gpuloom.scheduler.leadership.rivals import RivalLeases
from gpuloom.scheduler.metrics.exposition import write_exposition
from gpuloom.scheduler.metrics.idle import count_idle_cards, count_unhealthy_cards
from gpuloom.scheduler.metrics.series import Samples, Series, build_info
from gpuloom.scheduler.parts import Parts
from gpuloom.scheduler.pods.pending import cause_of, look_for_pending
from gpuloom.scheduler.preemption.counts import PreemptionCounts
from gpuloom.scheduler.state import SchedulerState
from gpuloom.serving.connections import Handler
from gpuloom.serving.presented import Presented
from gpuloom.serving.scrapes import Scrapes


def list_series(parts: Parts, presented: Presented | None = None) -> Iterator[Series]:
    """Give all metrics but those of the registry; ``presented`` is the server's certificate, if it has one."""
    yield build_info()
    yield from _about_cards(parts)
    yield from _about_waiting(parts)
    yield from _about_watches(parts)
    yield from _about_events(parts)
    yield from _about_pods_of_others(parts)
    yield from _about_listeners(parts, presented)
    yield from count_preemptions(parts.preemption.counts, parts.state)
    yield from count_moves(parts.defragmenter.counts)
    yield from count_rivals(parts.rivals, parts.clocks.monotonic)
    for one in parts.cards.series(legacy=parts.settings.legacy_metrics):
        yield one.with_zone()


def make_scraper(parts: Parts, presented: Presented | None) -> Handler:
    """Make what answers Prometheus."""
    return Scrapes(lambda: write_exposition(list_series(parts, presented), parts.latencies.registry)).answer


def _about_cards(parts: Parts) -> Iterator[Series]:
    state, cluster = parts.state, parts.state.cluster
    yield _one("gpuloom_in_charge", "1 while this replica decides and writes", lambda: state.charge.is_ours)
    yield _one("gpuloom_table_nodes", "Nodes with cards", lambda: len(list(cluster.nodes)))
    yield _one(
        "gpuloom_table_rows",
        "Rows of the card tables, free ones too",
        lambda: sum(len(table.uuids) for table in cluster.tables),
    )
    yield Series(
        "gpuloom_node_silent",
        "1 for each node with unusable cards: its device plugin is gone, or they never could be read",
        ("node", "vendor"),
        lambda: (found and (found, 1.0) for found in parts.nodes.silent()),
    )
    yield Series(
        "gpuloom_reservations",
        "Pods that hold cards, assumed or confirmed",
        ("standing",),
        partial(_reservations, parts),
    )
    yield _one(
        "gpuloom_unaccounted_pods",
        "Pods whose cards cannot be read: they close cards",
        lambda: sum(1 for _ in cluster.closings_in_effect()),
    )
    yield _one(
        "gpuloom_unaccounted_cards",
        "Cards closed by such pods",
        lambda: sum(
            int(((table.cards.cordoned >= BY_UNREADABLE) & (table.cards.node != NO_NODE)).sum())
            for table in cluster.tables
        ),
    )
    yield Series(
        "gpuloom_idle_cards",
        "Cards that nobody is on and pods could get: healthy, open, on open nodes; they may be too small for those "
        "that wait, or another vendor's",
        ("vendor",),
        lambda: count_idle_cards(cluster, state.shown.nodes),
    )
    yield Series(
        "gpuloom_unhealthy_cards",
        "Unhealthy cards, of nodes that have some",
        ("node", "vendor"),
        lambda: count_unhealthy_cards(cluster),
    )
    yield Series(
        "gpuloom_stranded_cards",
        "Free shares, in cards, that pods to come cannot use on average; with the policy fragmentation",
        ("vendor",),
        partial(_stranded, parts),
    )


def _about_waiting(parts: Parts) -> Iterator[Series]:
    """Pods that wait, for a card or for each other."""
    state = parts.state
    yield _one("gpuloom_binds_open", "Bindings sent and not settled", lambda: len(state.binds.binding))
    yield _one(
        "gpuloom_pods_refused", "Pods that gpuloom refused and that wait", lambda: len(state.waiting.unschedulable)
    )
    yield from count_pending(state, parts.clocks)
    yield _one("gpuloom_lock_waiters", "Binds that wait for a node lock", lambda: parts.locks.waiting)
    yield Series(
        "gpuloom_node_lock_held_seconds",
        "Since this replica saw the node's present lock",
        ("node", "lock"),
        lambda: [((node, key), held_s) for node, key, held_s in parts.locks.held()],
    )
    yield _one(
        "gpuloom_pods_unserved", "Bound pods that wait for their device plugin", lambda: len(state.binds.unserved)
    )
    yield _one(
        "gpuloom_pods_unserved_overdue",
        "Those waiting longer than --node-lock-timeout: their nodes start no other pod with cards",
        lambda: len(state.binds.unserved.overdue(state.settings.node_lock_timeout_s, parts.clocks.monotonic())),
    )


def _about_events(parts: Parts) -> Iterator[Series]:
    """What is written or remembered for a while only."""
    yield _one("gpuloom_events_dropped", "Events not tried: too many at once", lambda: parts.recorder.dropped, _COUNT)
    yield _one("gpuloom_events_failed", "Events the API server did not take", lambda: parts.recorder.failed, _COUNT)
    yield _one("gpuloom_labels_dropped", "Pods left without node label", lambda: parts.labeller.dropped, _COUNT)
    yield _one(
        "gpuloom_reservations_expired",
        "Reservations ended after 15 minutes without Bind",
        lambda: parts.cleanup.expired,
        _COUNT,
    )


def _about_pods_of_others(parts: Parts) -> Iterator[Series]:
    """Pods that came past this scheduler."""
    yield _one(
        "gpuloom_foreign_bindings",
        "Pods that another scheduler gave cards: only one may decide",
        lambda: parts.pods.watchdog.foreign_bindings,
        _COUNT,
    )
    yield _one(
        "gpuloom_pods_unmutated",
        "Pods with cards that the webhook was not asked about",
        lambda: parts.pods.watchdog.unmutated,
        _COUNT,
    )
    yield _each(
        "gpuloom_foreign_pods",
        "Pods that bypassed the scheduler and hold devices: they close their vendor's cards on the node",
        "node",
        parts.pods.foreign.count,
    )


def _about_listeners(parts: Parts, presented: Presented | None) -> Iterator[Series]:
    yield _one(
        "gpuloom_reviews_refused",
        "Reviews of large pods denied: too many at once",
        lambda: parts.webhook.refused,
        _COUNT,
    )
    yield _one(
        "gpuloom_callers_refused",
        "Calls of the webhook without a certificate of --webhook-client-ca",
        lambda: parts.listeners.callers.refused if parts.listeners.callers else 0,
        _COUNT,
    )
    yield _each(
        "gpuloom_connections_refused",
        "Connections refused, or ended while idle: too many",
        "listener",
        lambda: {name: one.refused for name, one in parts.listeners.connections.items()},
        _COUNT,
    )
    yield Series(
        "gpuloom_certificate_not_after_seconds",
        "End of the main port's certificate, seconds since 1970",
        (),
        lambda: [((), presented.expires.timestamp())] if presented else [],
    )


def _about_watches(parts: Parts) -> Iterator[Series]:
    labels = ("resource",)
    synced = "1 once the first list is complete"
    yield Series("gpuloom_watch_synced", synced, labels, partial(_of_watches, parts, lambda one: one.synced))
    yield Series("gpuloom_watch_age_seconds", "Since the API server was heard last", labels, partial(_ages, parts))
    for name, text, value in _OF_WATCHES:
        yield Series(name, text, labels, partial(_of_watches, parts, value), _COUNT)


def _reservations(parts: Parts) -> Samples:
    ledger = parts.state.cluster.ledger
    assumed = len(ledger.assumed())
    return [(("assumed",), assumed), (("confirmed",), len(ledger) - assumed)]


def _stranded(parts: Parts) -> Samples:
    for word, scheduler in parts.state.pod_scheduler.by_vendor.items():
        table = parts.state.cluster[word].table
        if table.positions and (cards := scheduler.filter_cache.measure_stranded(table)) is not None:
            yield (word,), cards


def _ages(parts: Parts) -> Samples:
    now_s = time.monotonic()
    for plural, one in parts.informers.reflectors.items():
        if one.last_event_s is not None:
            yield (plural,), now_s - one.last_event_s


def _of_watches(parts: Parts, value: Callable[[Reflector[Any]], float]) -> Samples:
    return [((plural,), float(value(one))) for plural, one in parts.informers.reflectors.items()]


def count_pending(state: SchedulerState, clocks: Clocks) -> Iterator[Series]:
    """Give the series about all pods that wait for cards; they are looked for once, for the first."""
    counts = dict.fromkeys(CAUSES, 0)
    oldest_s: dict[str, float] = dict.fromkeys(CAUSES, 0.0)
    oldest_in_s: dict[tuple[str, str], float] = {}

    def count() -> Samples:
        now = clocks.unix
        for pod in look_for_pending(state):
            yield None
            if pod is not None:
                cause = cause_of(state, pod)
                counts[cause] += 1
                age_s, place = float(now - (pod.started_at or now)), (pod.namespace, cause)
                oldest_s[cause] = max(oldest_s[cause], age_s)
                oldest_in_s[place] = max(oldest_in_s.get(place, 0.0), age_s)
        yield from (((cause,), float(number)) for cause, number in counts.items())

    causes = "cards (gpuloom refused), node (kube-scheduler did before), gate, scheduler (another is named)"
    text = f"Pods that wait for cards: {causes}, unseen (not tried yet), other (see gpuloom explain)"
    yield Series("gpuloom_pods_pending", text, ("cause",), count)
    text = "Since the oldest pod of a cause was created; 0 without one. `gpuloom pending -A` names it"
    yield _each("gpuloom_pods_pending_oldest_seconds", text, "cause", lambda: oldest_s)
    yield Series(
        "gpuloom_namespace_pods_pending_oldest_seconds",
        "Since the oldest waiting pod of a namespace and cause was created",
        ("namespace", "cause"),
        oldest_in_s.items,
    )


def count_preemptions(counts: PreemptionCounts, state: SchedulerState) -> Iterator[Series]:
    """Give the series about pods for which room is made."""
    yield _one("gpuloom_nominations", "Pods for which room is being made", lambda: len(state.nominations))
    yield _one(
        "gpuloom_preemption_attempts",
        "Pods for which victims were looked for",
        lambda: counts.attempts,
        _COUNT,
    )
    yield _one("gpuloom_preemption_victims", "Pods evicted for others", lambda: counts.victims, _COUNT)
    text = "Attempts and plans that came to nothing"
    yield _each("gpuloom_preemption_dropped", text, "cause", lambda: counts.dropped, _COUNT)
    yield _each("gpuloom_nominations_ended", "Nominations that ended", "cause", lambda: counts.ended, _COUNT)
    yield _one(
        "gpuloom_preemption_bound_seconds",
        "Seconds from refusal to bound of pods for which room was made",
        lambda: counts.bound_s,
        _COUNT,
    )


def count_moves(counts: DefragmentationCounts) -> Iterator[Series]:
    """Give the series about pods that are moved for others."""
    yield _one("gpuloom_defragmentation_moves", "Pods evicted to run elsewhere", lambda: counts.moves, _COUNT)
    text = "Pods for which moves were looked for"
    yield _each("gpuloom_defragmentation_plans", text, "outcome", lambda: counts.plans, _COUNT)


def count_rivals(rivals: RivalLeases, monotonic: Callable[[], float]) -> Iterator[Series]:
    """Give the series about leases of other schedulers."""

    def count() -> Samples:
        now = monotonic()
        return [(("named",), len(rivals.named(now))), (("elsewhere",), len(rivals.elsewhere(now)))]

    text = "Living leases of other card schedulers: named ones keep this replica from deciding"
    yield Series("gpuloom_rival_leases", text, ("where",), count)
    yield _one(
        "gpuloom_rival_leases_ignored",
        "News of leases elsewhere, too many to remember",
        lambda: rivals.ignored,
        _COUNT,
    )


_COUNT = "counter"
_OF_WATCHES: tuple[tuple[str, str, Callable[[Reflector[Any]], float]], ...] = (
    ("gpuloom_watch_changes", "Changes of objects", lambda one: one.changes),
    ("gpuloom_watch_relists", "Lists after the first", lambda one: one.relists),
    ("gpuloom_watch_reconnects", "Watches after the first", lambda one: one.reconnects),
    ("gpuloom_watch_failures", "Lists and watches that failed", lambda one: one.failures),
    ("gpuloom_watch_bad_objects", "Objects that cannot be read", lambda one: one.bad_objects),
)


def _one(name: str, text: str, value: Callable[[], float], kind: str = "gauge") -> Series:
    return Series(name, text, (), lambda: [((), float(value()))], kind)


def _each(name: str, text: str, label: str, values: Callable[[], Mapping[str, float]], kind: str = "gauge") -> Series:
    return Series(name, text, (label,), lambda: [((one,), float(value)) for one, value in values().items()], kind)
