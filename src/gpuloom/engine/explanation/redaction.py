"""An explanation for somebody who may not see all namespaces: other pods become amounts without names (binding 6)."""

from collections.abc import Callable

import msgspec

from gpuloom.engine.explanation.leaving import tell_leaving
from gpuloom.engine.explanation.values import Explanation, PodName, Remedy


def redact(explanation: Explanation, may_see: Callable[[str], bool]) -> Explanation:
    """Take out the names of pods in namespaces that may not be seen."""
    remedies = tuple(_redact_remedy(remedy, may_see) for remedy in explanation.remedies)
    return msgspec.structs.replace(explanation, remedies=remedies)


def _redact_remedy(remedy: Remedy, may_see: Callable[[str], bool]) -> Remedy:
    if not remedy.pods or all(may_see(pod.namespace) for pod in remedy.pods):
        return remedy
    pods = tuple(pod if may_see(pod.namespace) else PodName() for pod in remedy.pods)
    return msgspec.structs.replace(remedy, pods=pods, text=tell_leaving(pods, remedy.nodes[0]))
