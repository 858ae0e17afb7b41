"""Why a node has no cards here, or is not offered, in one clause for people. Pure."""

from collections.abc import Mapping

from gpuloom.scheduler.nodes.health import HealthHistory, Observation
from gpuloom.vendors.hooks import read_cards
from gpuloom.vendors.profile import Profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Node
from gpuloom.wire.register import NoCardsError

READY = "Ready"
_NOT_READY = "the node is not ready: its kubelet does not answer"
_CLOSED = "the node is closed to new pods (kubectl cordon)"


def explain_unschedulable(node: Node) -> str:
    """Say why kube-scheduler offers a node to no pod, nothing if it does."""
    if node.spec.unschedulable:
        return _CLOSED
    ready = [condition.status for condition in node.status.conditions or () if condition.type == READY]
    return _NOT_READY if ready and ready[0] != "True" else ""


def is_selected(node: Node, selector: Mapping[str, str]) -> bool:
    """Tell whether a node has all labels that one must have to be looked at."""
    return all(node.labels.get(key) == value for key, value in selector.items())


def explain_no_vendor(node: Node | None, selector: Mapping[str, str]) -> str:
    """Say why a node that names no vendor has no cards here."""
    return _explain_node(node, selector) or "no device plugin has registered cards"


def _explain_node(node: Node | None, selector: Mapping[str, str]) -> str:
    if node is None:
        return "there is no such node"
    return "" if is_selected(node, selector) else "its labels are not those of --node-label-selector"


def explain_missing_cards(
    node: Node | None, observation: Observation, history: HealthHistory, profile: Profile, selector: Mapping[str, str]
) -> str:
    """Say why the cards of a node are not known."""
    told = _explain_node(node, selector)
    if told or node is None:
        return told
    key, resource = profile.cards.register, profile.resources.count
    if profile.cards.source == "capacity":
        return "" if observation.capacity else f"its capacity names no {resource}: no device plugin offers cards"
    if observation.register is None:
        return f"no annotation {key}: no device plugin has registered cards"
    if fault := _find_fault(node, profile):
        return f"the annotation {key} {fault}"
    if observation.count == 0 and profile.health.kind == "handshake":
        gone = " any more" if history.down_register is not None else ""
        return f"the kubelet offers no {resource}{gone}: look at the device plugin's pod on this node"
    return "its cards were not looked at yet"


def _find_fault(node: Node, profile: Profile) -> str:
    try:
        read_cards(node, profile)
    except NoCardsError:
        return "names no card: the device plugin found none"
    except WireError as error:
        return f"cannot be read: {error}"
    return ""
