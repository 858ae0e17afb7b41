"""By what HAMi's scheduler is known: its lease, which gpuloom's has too, and the labels of the pods of both."""

from collections.abc import Mapping

HAMI_LEASE = "hami-scheduler"
HAMI_NAMESPACES = ("kube-system", "hami-system")
_COMPONENT, _NAME = "app.kubernetes.io/component", "app.kubernetes.io/name"


def is_hamis_scheduler(labels: Mapping[str, str]) -> bool:
    """Tell whether the labels are those of a pod of HAMi's scheduler; both charts give the component one name."""
    return labels.get(_COMPONENT) == "hami-scheduler" and labels.get(_NAME) != "gpuloom"
