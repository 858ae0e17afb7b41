"""Whether a node would take a pod, cards apart, by what kube-scheduler looks at besides them."""

from gpuloom.engine.hostfit.demand import HostDemand
from gpuloom.engine.hostfit.filters import refuse_host
from gpuloom.scheduler.nodes.missingcards import explain_unschedulable
from gpuloom.scheduler.watch.shown import ShownObjects


def takes_beside_cards(shown: ShownObjects, name: str, demand: HostDemand) -> bool:
    """Tell whether a node would take a new pod, cards apart, as far as can be judged here.

    A node that is closed or not ready is offered to none. For a node that is chosen already, ask ``refuse_host``: a
    pod may tolerate that it was closed since.
    """
    node = shown.nodes.get(name)
    if node is None or explain_unschedulable(node):
        return False
    return not refuse_host(node, shown.hosts.on(name), demand)
