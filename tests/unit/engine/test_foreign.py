"""Which pods came past the scheduler, and which of them hold devices (trust T-03, decision 021)."""

import msgspec
import pytest

from gpuloom.engine.state.foreign_pods import find_vendors_asked, find_vendors_held, is_foreign
from gpuloom.vendors.catalog import load_default_profiles, make_catalog
from gpuloom.wire.objects import Pod

CATALOG = make_catalog(load_default_profiles())
STARTED = "2026-01-01T00:00:00Z"


def make_pod(*, node="n1", placed="", limits=({"nvidia.com/gpu": "1"},), init=(), phase="Running", started=STARTED):
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"hami.io/vgpu-node": placed}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": f"c{n}", "resources": {"limits": one}} for n, one in enumerate(limits)],
            "initContainers": [{"name": f"i{n}", "resources": {"limits": one}} for n, one in enumerate(init)],
        },
        "status": {"phase": phase, "startTime": started},
    }
    return msgspec.convert(body, Pod)


@pytest.mark.parametrize(
    ("facts", "foreign"),
    [({}, True), ({"placed": "n2"}, True), ({"placed": "n1"}, False), ({"node": ""}, False)],
    ids=["placed by nobody", "placed elsewhere", "placed here", "not bound"],
)
def test_a_bound_pod_that_nobody_placed_on_its_node_is_foreign(facts, foreign):
    assert is_foreign(make_pod(**facts)) == foreign


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ("NVIDIA",)),
        ({"limits": ({},), "init": ({"nvidia.com/gpu": "1"},)}, ("NVIDIA",)),
        ({"limits": ({"nvidia.com/gpu": "1"}, {"hygon.com/dcunum": "2"})}, ("DCU", "NVIDIA")),
        ({"limits": ({"nvidia.com/gpu": "many"},)}, ("NVIDIA",)),
        ({"limits": ({"nvidia.com/gpu": "0"},)}, ()),
        ({"limits": ({"nvidia.com/gpumem": "1000"},)}, ()),
        ({"limits": ({"cpu": "1"},)}, ()),
    ],
    ids=["one", "init container", "two vendors", "unreadable", "none", "memory alone", "no card"],
)
def test_a_kubelet_is_asked_by_the_number_of_devices(facts, words):
    assert find_vendors_asked(make_pod(**facts), CATALOG) == words


@pytest.mark.parametrize(
    "facts",
    [{"started": None}, {"phase": "Failed"}, {"phase": "Succeeded"}, {"placed": "n1"}],
    ids=["its kubelet has not answered", "refused", "over", "placed here"],
)
def test_a_pod_that_was_not_served_past_the_scheduler_holds_nothing(facts):
    assert find_vendors_held(make_pod(**facts), CATALOG) == ()


def test_a_pod_that_its_kubelet_took_in_holds_devices_before_it_runs():
    assert find_vendors_held(make_pod(phase="Pending"), CATALOG) == ("NVIDIA",)
