"""An explanation for somebody who may not see all namespaces: other pods become amounts without names (binding 6)."""

from collections.abc import Callable

import msgspec

from gpuloom.engine.explanation.removals import tell_removal
from gpuloom.engine.explanation.values import Closer, Explanation, NodeVerdict, PodName, Remedy


def redact(explanation: Explanation, may_see: Callable[[str], bool]) -> Explanation:
    """Take out the names of pods in namespaces that may not be seen."""
    remedies = tuple(_redact_remedy(remedy, may_see) for remedy in explanation.remedies)
    nodes = tuple(_redact_node(node, may_see) for node in explanation.nodes)
    return msgspec.structs.replace(explanation, remedies=remedies, nodes=nodes)


def redact_closer(closer: Closer, may_see: Callable[[str], bool]) -> Closer:
    """Take out who closes a card, and what its annotations say."""
    return closer if may_see(closer.pod.namespace) else Closer(pod=PodName())


def _redact_node(node: NodeVerdict, may_see: Callable[[str], bool]) -> NodeVerdict:
    if not any(card.closed_by for card in node.cards):
        return node
    cards = tuple(
        msgspec.structs.replace(card, closed_by=tuple(redact_closer(one, may_see) for one in card.closed_by))
        for card in node.cards
    )
    return msgspec.structs.replace(node, cards=cards)


def _redact_remedy(remedy: Remedy, may_see: Callable[[str], bool]) -> Remedy:
    if not remedy.pods or all(may_see(pod.namespace) for pod in remedy.pods):
        return remedy
    pods = tuple(pod if may_see(pod.namespace) else PodName() for pod in remedy.pods)
    return msgspec.structs.replace(remedy, pods=pods, text=tell_removal(pods, remedy.nodes[0]))
