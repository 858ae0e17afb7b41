"""What a process knows, in a form that can be compared with what another knows."""

from gpuloom.scheduler import SchedulerProcess

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
        "limits": dict(state.cluster.quotas.limits("default")),
        "pods": {(uid, pod.spec.node_name, pod.is_terminating) for uid, pod in shown.pods.items()},
        "nodes": {(name, node.metadata.resource_version) for name, node in shown.nodes.items()},
        "beside cards": {name: (shown.hosts.on(name).pods, shown.hosts.on(name).amounts) for name in shown.nodes},
        "unserved": {(one.uid, one.node, one.is_shown) for one in state.binds.unserved},
        "terminating": set(shown.terminating),
        "allocating": set(state.binds.allocating),
        "labels": set(shown.victim_labels),
        "budgets": (
            dict(budgets.allowed),
            [budgets.protecting("default", "p", one) for one in LABELS],
        ),
        "mistyped": set(shown.mistyped.uids()),
        "plugins": set(shown.plugins.uids()),
        "nominations": {(one.uid, one.node) for one in state.nominations},
        "locks": {(node, key) for node, key, _ in parts.locks.held()},
        "under way": (set(state.binds.binding), dict(state.binds.unshown), parts.locks.waiting),
    }


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
