"""What a recording keeps of a pod: all that the answers depend on."""

import pytest

from gpuloom.scheduler.recording.projection import Projection
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.owned import load_shipped_owned
from gpuloom.wire.objects import ObjectMeta, Pod, PodSpec, PodStatus


def annotations_kept(*keys: str, settings: SchedulerSettings) -> set[str]:
    pod = Pod(metadata=ObjectMeta(name="p", annotations=dict.fromkeys(keys, "x")))
    return set(Projection(settings).project(pod)["metadata"]["annotations"])


@pytest.mark.parametrize("enable_ascend", [True, False])
def test_what_the_webhook_removes_is_kept_for_the_replay(enable_ascend: bool) -> None:  # noqa: FBT001
    owned = {*load_shipped_owned().keys, "gpuloom.io/any"}
    assert annotations_kept(*owned, settings=SchedulerSettings(enable_ascend=enable_ascend)) == owned


def test_annotations_of_other_programs_stay_out() -> None:
    assert annotations_kept("kubectl.kubernetes.io/last-applied-configuration", settings=SchedulerSettings()) == set()


@pytest.mark.parametrize(("placed", "kept"), [("n1", False), ("n2", True)], ids=["placed here", "foreign"])
def test_that_a_kubelet_took_a_foreign_pod_in_is_kept(placed: str, kept: bool) -> None:  # noqa: FBT001
    """trust T-03."""
    pod = Pod(
        metadata=ObjectMeta(name="p", annotations={"hami.io/vgpu-node": placed}),
        spec=PodSpec(node_name="n1"),
        status=PodStatus(phase="Running", start_time="2026-01-01T00:00:00Z"),
    )
    assert ("startTime" in Projection(SchedulerSettings()).project(pod)["status"]) == kept
