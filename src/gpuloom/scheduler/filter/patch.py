"""What a decision writes on its pod, as a merge patch (scheduler 4.2 steps 9 and 11).

By default the Binding carries it; with ``filter-write=inline`` Filter sends it, and recordings always say it.
"""

from typing import Any

from gpuloom.engine.decision.annotations import write_decision
from gpuloom.engine.request.demand import asks_vendor
from gpuloom.engine.state.ledger import Reservation
from gpuloom.scheduler.bind.podlabel import label_of
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.catalog import Catalog
from gpuloom.wire.keys import VGPU_NODE, VGPU_TIME
from gpuloom.wire.objects import Pod

MergePatch = dict[str, Any]


def annotate_decision(reservation: Reservation, pod: Pod, catalog: Catalog) -> dict[str, str | None]:
    """Return the annotations of a decision; None is one that the pod has and that must vanish."""
    decided = write_decision(reservation, catalog)
    return {key: value for key, value in decided.items() if value is not None or key in pod.annotations}


def patch_decision(reservation: Reservation, pod: Pod, settings: SchedulerSettings) -> MergePatch:
    """Return the annotations and the label of a decision."""
    metadata: MergePatch = {"annotations": annotate_decision(reservation, pod, settings.catalog)}
    if settings.pod_label and (labels := label_of(reservation.node)):
        metadata["labels"] = labels
    return {"metadata": metadata}


def patch_refusal(pod: Pod, settings: SchedulerSettings) -> MergePatch | None:
    """Take back what an earlier Filter wrote on a pod that now fits nowhere (B-20), None when there is nothing."""
    if VGPU_NODE not in pod.annotations or pod.spec.node_name:
        return None
    keys = [VGPU_NODE, VGPU_TIME]
    for profile in settings.catalog:
        present = profile.owned_among(pod.annotations)
        if present or asks_vendor(pod, profile):
            write = profile.write
            lists = (write.to_allocate, write.allocated, write.instances)
            keys += dict.fromkeys([*(key for key in lists if key), *sorted(present)])
    return {
        "metadata": {"annotations": dict.fromkeys(keys), "labels": {VGPU_NODE: None}},
    }
