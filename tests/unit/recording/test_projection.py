"""What a recording keeps of a pod: all that the answers depend on."""

import pytest

from gpuloom.scheduler.recording.projection import Projection
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.owned import load_shipped_owned
from gpuloom.wire.objects import ObjectMeta, Pod


def annotations_kept(*keys: str, settings: SchedulerSettings) -> set[str]:
    pod = Pod(metadata=ObjectMeta(name="p", annotations=dict.fromkeys(keys, "x")))
    return set(Projection(settings).project(pod)["metadata"]["annotations"])


@pytest.mark.parametrize("enable_ascend", [True, False])
def test_what_the_webhook_removes_is_kept_for_the_replay(enable_ascend: bool) -> None:  # noqa: FBT001
    owned = {*load_shipped_owned().keys, "gpuloom.io/any"}
    assert annotations_kept(*owned, settings=SchedulerSettings(enable_ascend=enable_ascend)) == owned


def test_annotations_of_other_programs_stay_out() -> None:
    assert annotations_kept("kubectl.kubernetes.io/last-applied-configuration", settings=SchedulerSettings()) == set()
