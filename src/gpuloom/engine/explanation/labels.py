"""Which labels would let nodes take a pod whose node selector matches none, and which it may have meant."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice

from gpuloom.engine.explanation.hosts import tell_one_of
from gpuloom.engine.explanation.values import Remedy

_LABELS_OF_THE_NODE = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "node.kubernetes.io/windows-build",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
    }
)
_PREFIXES_OF_THE_NODE = ("topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/")
_ALIKE = 0.8
_SHORTEST, _LONGEST = 7, 40
"""Labels of so many characters are compared: of ``zone=a`` any other zone is like it, and long ones take long."""
_MOST_MISSING, _MOST_KNOWN = 2, 32
"""So many are compared with so many, which takes milliseconds: whoever creates pods chooses their selectors."""


def suggest_labels(missing: Mapping[str, Sequence[str]], known: Collection[str] = ()) -> Remedy:
    """Say which labels would let the nodes take the pod that need the fewest; by node what is all that it lacks.

    Labels that say what a node is are not given to another: of nodes that lack such a one nothing is said of labels.

    known  labels that nodes have, written ``key=value``: one that is like a missing one may be meant
    """
    given = {name: labels for name, labels in missing.items() if not any(map(_is_of_the_node, labels))}
    few = min(given, key=lambda name: (len(given[name]), name), default="")
    labels = given.get(few, ())
    alike = sorted(name for name in missing if not labels or missing[name] == labels)
    telling = filter(_is_telling, labels[:_MOST_MISSING])
    meant = [like for label in telling for like in _find_alike(label, known)]
    ask = f" (did you mean {' and '.join(meant)}?)" if meant else ""
    words = f"if labelled {' and '.join(labels)}{ask}, or " if labels else ""
    text = f"would fit on {tell_one_of(alike[0], len(alike))} {words}without the pod's nodeSelector"
    return Remedy(change="labels" if labels else "selector", text=text, nodes=(alike[0],), node_count=len(alike))


def list_labels(nodes: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return the labels of some nodes that others may have too, written ``key=value``; not all of very many."""
    said = (f"{key}={value}" for labels in nodes for key, value in labels.items() if value)
    may_be_meant = (label for label in said if _is_telling(label) and not _is_of_the_node(label))
    return frozenset(islice(may_be_meant, _MOST_KNOWN))


def _find_alike(label: str, known: Iterable[str]) -> list[str]:
    """Return the label that is most like another, if one with its key or its value is."""
    key, _, value = label.partition("=")
    return get_close_matches(
        label, [one for one in known if one.startswith(f"{key}=") or one.endswith(f"={value}")], 1, _ALIKE
    )


def _is_telling(label: str) -> bool:
    return _SHORTEST <= len(label) <= _LONGEST


def _is_of_the_node(label: str) -> bool:
    """Tell whether the kubelet or the cloud says this label of a node, written ``key=value``."""
    key = label.partition("=")[0]
    return key in _LABELS_OF_THE_NODE or key.startswith(_PREFIXES_OF_THE_NODE)
