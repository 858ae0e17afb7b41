"""Which labels would let nodes take a pod whose node selector or affinity matches none, and which it may have meant."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Literal

from gpuloom.engine.explanation.hosts import suggest
from gpuloom.engine.explanation.values import Remedy
from gpuloom.engine.hostfit.selectors import is_label

Labels = Mapping[str, str]
Condition = Literal["nodeSelector", "required node affinity", "nodeSelector and required node affinity"]
"""What of a pod asks for labels."""

_BY_KUBERNETES = ("kubernetes.io", "k8s.io")
_BY_PEOPLE = ("node-role.kubernetes.io", "node-restriction.kubernetes.io")
_CHANGES: Mapping[Condition, str] = {"nodeSelector": "selector", "required node affinity": "affinity"}
_ALIKE = 0.8
_SHORTEST, _LONGEST = 7, 40
"""Labels of so many characters are compared: of ``zone=a`` any other zone is like it, and long ones take long."""
_MOST_MISSING, _MOST_KNOWN = 2, 32
"""So many are compared with so many, which takes milliseconds: whoever creates pods chooses their selectors."""


def suggest_labels(
    condition: Condition, missing: Mapping[str, Sequence[str]], labels_of: Mapping[str, Labels]
) -> Remedy:
    """Say which labels would let the nodes take the pod that need the fewest; by node what is all that it lacks.

    Labels that say what a node is are not given to another, and none that a node has are changed: of nodes that lack
    such a one nothing is said of labels, unless one that a node has is like it and may be meant.

    missing    labels by node, written ``key=value``; none where labels would not help
    labels_of  those that these nodes have
    """
    given = {name: labels for name, labels in missing.items() if _may_get(labels, labels_of.get(name, {}))}
    few = min(given, key=lambda name: (len(given[name]), name), default="")
    labels = given.get(few, ())
    alike = sorted(name for name in given if given[name] == labels) or sorted(missing)
    node = alike[0]
    ask = _ask_if_meant(labels or missing[node], list_labels(labels_of.values()))
    words = f"if labelled {' and '.join(labels)}{ask or _tell_command(node, labels)}, or " if labels else ""
    change = "labels" if labels else _CHANGES[condition]
    return suggest(change, node, len(alike), f"{words}without the pod's {condition}{'' if labels else ask}")


def _may_get(labels: Sequence[str], has: Labels) -> bool:
    """Tell whether a node may be given labels, written ``key=value``, beside those that it has."""
    pairs = [label.partition("=")[::2] for label in labels]
    return bool(pairs) and all(
        is_label(key, value) and key not in has and not is_of_the_node(key) for key, value in pairs
    )


def tell_labels(node: str, labels: Sequence[str], has: Labels) -> str:
    """Say that a node should get labels, written ``key=value``; nothing where it may not, beside those that it has."""
    return f"if labelled {' and '.join(labels)}{_tell_command(node, labels)}" if _may_get(labels, has) else ""


def _tell_command(node: str, labels: Sequence[str]) -> str:
    return f" (kubectl label node {node} {' '.join(labels)})"


def _ask_if_meant(labels: Sequence[str], known: Collection[str]) -> str:
    """Ask whether labels were meant that some nodes have and that are like these."""
    telling = filter(_is_telling, labels[:_MOST_MISSING])
    meant = [like for label in telling for like in _find_alike(label, known)]
    return f" (did you mean {' and '.join(meant)}?)" if meant else ""


def list_labels(nodes: Iterable[Labels]) -> frozenset[str]:
    """Return the labels of some nodes that others may have too, written ``key=value``; not all of very many."""
    said = (f"{key}={value}" for labels in nodes for key, value in labels.items() if value)
    may_be_meant = (label for label in said if _is_telling(label) and not is_of_the_node(label.partition("=")[0]))
    return frozenset(islice(may_be_meant, _MOST_KNOWN))


def _find_alike(label: str, known: Iterable[str]) -> list[str]:
    """Return the label that is most like another, if one with its key or its value is."""
    key, _, value = label.partition("=")
    return get_close_matches(
        label, [one for one in known if one.startswith(f"{key}=") or one.endswith(f"={value}")], 1, _ALIKE
    )


def _is_telling(label: str) -> bool:
    return _SHORTEST <= len(label) <= _LONGEST


def is_of_the_node(key: str) -> bool:
    """Tell whether a label says what or where a node is: the kubelet, the cloud or a driver gives it, nobody else."""
    domain = key.rpartition("/")[0]
    if domain in _BY_PEOPLE:
        return False
    return domain.startswith("topology.") or any(domain == one or domain.endswith(f".{one}") for one in _BY_KUBERNETES)
