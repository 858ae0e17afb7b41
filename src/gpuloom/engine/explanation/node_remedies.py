"""What keeps a pod from nodes that people can change: a cordon, taints, labels; and how they would."""

from collections.abc import Iterator, Mapping, Sequence

from gpuloom.engine.explanation.hosts import suggest
from gpuloom.engine.explanation.labels import Condition, Labels, suggest_labels, tell_labels
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.hostfit.failed_filters import FailedFilters
from gpuloom.wire.objects import Taint

_MOST_KINDS = 3
"""So many different sets of taints are named."""


def suggest_node_remedies(failed: Mapping[str, FailedFilters], labels_of: Mapping[str, Labels]) -> Iterator[Remedy]:
    """Say what to change of a node or of the pod; several things only where one is never enough.

    failed     all that keeps the pod from a node, by node
    labels_of  the labels that these nodes have
    """
    least = min((one.kinds for one in failed.values()), default=0)
    nearest = {name: one for name, one in failed.items() if one.kinds == least}
    if least > 1:
        yield _suggest_together(nearest, labels_of)
        return
    if cordoned := [name for name, one in nearest.items() if one.is_cordoned]:
        yield suggest("cordon", min(cordoned), len(cordoned), _tell_uncordon(min(cordoned)))
    yield from _suggest_tolerations({name: one.taints for name, one in nearest.items() if one.taints})
    if missing := {name: one.unselected for name, one in nearest.items() if one.unselected}:
        yield suggest_labels("nodeSelector", missing, {name: labels_of.get(name, {}) for name in missing})
    if missing := {name: one.labels for name, one in nearest.items() if not one.matches_affinity}:
        yield suggest_labels("required node affinity", missing, {name: labels_of.get(name, {}) for name in missing})


def _suggest_tolerations(untolerated: Mapping[str, Sequence[Taint]]) -> Iterator[Remedy]:
    """Say which taints to tolerate, those first that are fewest."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, taints in untolerated.items():
        alike.setdefault(_write_taints(taints), []).append(name)
    order = sorted(alike.items(), key=lambda item: (len(item[0]), -len(item[1]), item[0]))
    for written, names in order[:_MOST_KINDS]:
        yield suggest("tolerations", min(names), len(names), _tell_tolerating(written))


def _suggest_together(nearest: Mapping[str, FailedFilters], labels_of: Mapping[str, Labels]) -> Remedy:
    """Say all that would have to be changed of one of the nodes of which that is least."""
    node = min(nearest)
    alike = sum(one == nearest[node] for one in nearest.values())
    *before, last = _tell_all(node, nearest[node], labels_of.get(node, {}))
    return suggest("several", node, alike, f"{', '.join(before)} and {last}" if before else last)


def _tell_all(node: str, failed: FailedFilters, has: Labels) -> Iterator[str]:
    if failed.is_cordoned:
        yield _tell_uncordon(node)
    if failed.taints:
        yield _tell_tolerating(_write_taints(failed.taints))
    if condition := _name_condition(failed):
        yield tell_labels(node, failed.labels, has) or f"without the pod's {condition}"


def _name_condition(failed: FailedFilters) -> Condition | None:
    """Name what of the pod asks for other labels."""
    if failed.matches_affinity:
        return "nodeSelector" if failed.unselected else None
    return "nodeSelector and required node affinity" if failed.unselected else "required node affinity"


def _tell_uncordon(node: str) -> str:
    return f"if uncordoned (kubectl uncordon {node})"


def _tell_tolerating(taints: Sequence[str]) -> str:
    return f"if the pod tolerated {' and '.join(taints)}"


def _write_taints(taints: Sequence[Taint]) -> tuple[str, ...]:
    """Write taints as ``kubectl taint`` does, in order."""
    names = ((f"{one.key}={one.value}" if one.value else one.key, one.effect) for one in taints)
    return tuple(sorted(f"{name}:{effect}" for name, effect in names))
