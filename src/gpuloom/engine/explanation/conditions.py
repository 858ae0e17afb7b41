"""What keeps a pod from nodes that would take it without: taints not tolerated, a node's cordon."""

from collections.abc import Iterator, Mapping, Sequence

from gpuloom.engine.explanation.hosts import tell_one_of
from gpuloom.engine.explanation.values import Remedy
from gpuloom.wire.objects import Taint

_MOST_KINDS = 3
"""So many different sets of taints are named."""


def suggest_tolerations(untolerated: Mapping[str, Sequence[Taint]]) -> Iterator[Remedy]:
    """Say which taints to tolerate, those first that are fewest; by node what is all that it has against the pod."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, taints in untolerated.items():
        alike.setdefault(tuple(sorted(map(tell_taint, taints))), []).append(name)
    order = sorted(alike.items(), key=lambda item: (len(item[0]), -len(item[1]), item[0]))
    for words, names in order[:_MOST_KINDS]:
        yield _tell("tolerations", names, f"if the pod tolerated {' and '.join(words)}")


def suggest_uncordon(nodes: Sequence[str]) -> Iterator[Remedy]:
    """Say that nodes would take the pod if they were not cordoned."""
    if nodes:
        yield _tell("cordon", nodes, f"if uncordoned (kubectl uncordon {min(nodes)})")


def tell_taint(taint: Taint) -> str:
    """Write a taint as ``kubectl taint`` does."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _tell(change: str, nodes: Sequence[str], words: str) -> Remedy:
    node = min(nodes)
    text = f"would fit on {tell_one_of(node, len(nodes))} {words}"
    return Remedy(change=change, text=text, nodes=(node,), node_count=len(nodes))
