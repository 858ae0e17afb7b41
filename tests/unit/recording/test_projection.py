"""What a recording keeps of a pod: all that the answers depend on."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from gpuloom.engine.state.unserved import is_unserved
from gpuloom.scheduler.recording.projection import Projection
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.catalog import load_default_profiles
from gpuloom.vendors.owned import load_shipped_owned
from gpuloom.vendors.profilefile import make_profile
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


@pytest.mark.parametrize("start", ["2026-01-01T00:00:00Z", None], ids=["answered", "not yet"])
def test_whether_a_pod_of_two_vendors_waits_for_its_plugins_is_kept_for_any_profile(start: str | None) -> None:
    """binding 9."""
    own = tomllib.loads((Path(__file__).parents[3] / "docs/examples/acme.toml").read_text())
    own["lock"] = {"key": "hami.io/mutex.lock"}
    settings = SchedulerSettings(profiles=(*load_default_profiles(), make_profile(own, "acme")))
    said = {"hami.io/vgpu-node": "n1", "hami.io/bind-phase": "success"}
    lists = {"hami.io/vgpu-devices-to-allocate": "", own["write"]["to_allocate"]: "ACME-1,Acme,1024,25:;"}
    pod = Pod(
        metadata=ObjectMeta(name="p", annotations={**said, **lists}),
        spec=PodSpec(node_name="n1"),
        status=PodStatus(phase="Running", start_time=start),
    )
    kept, under = (
        msgspec.convert(Projection(settings).project(pod), Pod),
        settings.catalog.lists_under("hami.io/mutex.lock"),
    )
    assert is_unserved(kept, under) == is_unserved(pod, under) == (start is None)
