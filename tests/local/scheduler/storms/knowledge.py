"""What a process knows, in a form that can be compared with what another knows."""

from local.scheduler.storms.world import NAMESPACES

from gpuloom.engine.state.usage import Usage
from gpuloom.scheduler import SchedulerProcess
from gpuloom.scheduler.state import SchedulerState

LABELS: tuple[dict[str, str], ...] = ({}, {"l": "1"}, {"l": "9"})


def describe(process: SchedulerProcess) -> dict[str, object]:
    """Return all that a process knows and that follows from the objects, by what it is."""
    state, parts = process.state, process.parts
    shown, budgets = state.shown, state.shown.budgets
    cards = parts.cards.series(legacy=False)
    return {
        "reservations": {(one.uid, one.node, one.status, str(one.usage_by_vendor())) for one in state.cluster.ledger},
        "metrics of cards": {(one.name, sample) for one in cards for sample in one.samples()},
        "closed cards": set(map(str, state.cluster.closings)),
        "limits": {name: dict(state.cluster.quotas.limits(name)) for name in NAMESPACES},
        "held by namespaces": sum_by_namespace(state),
        "pods": {(uid, pod.spec.node_name, pod.is_terminating) for uid, pod in shown.pods.items()},
        "nodes": {(name, node.metadata.resource_version) for name, node in shown.nodes.items()},
        "beside cards": {name: (shown.hosts.on(name).pods, shown.hosts.on(name).amounts) for name in shown.nodes},
        "unserved": {(one.uid, one.node, one.is_shown) for one in state.binds.unserved},
        "terminating": set(shown.terminating),
        "allocating": set(state.binds.allocating),
        "labels": set(shown.victim_labels),
        "budgets": (
            dict(budgets.allowed),
            [budgets.protecting(name, "p", one) for name in NAMESPACES for one in LABELS],
        ),
        "mistyped": set(shown.mistyped.uids()),
        "plugins": set(shown.plugins.uids()),
        "nominations": {(one.uid, one.node) for one in state.nominations},
        "locks": {(node, key) for node, key, _ in parts.locks.held()},
        "under way": (set(state.binds.binding), dict(state.binds.unshown), parts.locks.waiting),
    }


def sum_by_namespace(state: SchedulerState) -> dict[tuple[str, str], Usage]:
    """Return what pods of a namespace hold of a vendor's cards, as quotas count it, where they hold any."""
    ledger, words = state.cluster.ledger, [profile.word for profile in state.settings.catalog]
    held = {(name, word): ledger.namespace_usage(name, word) for name in sorted(ledger.namespaces) for word in words}
    return {place: usage for place, usage in held.items() if usage != Usage()}


def find_remembered(process: SchedulerProcess) -> set[str]:
    """Return the pods that a process remembers as waiting though they are not there."""
    state = process.state
    waiting = {
        *state.waiting.unschedulable,
        *state.waiting.woken_since,
        *state.nominations.unclaimed_since,
        *state.promised.chosen,
    }
    return waiting - state.shown.pods.keys()
