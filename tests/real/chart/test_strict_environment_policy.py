"""The policy about the environment at its strictest, on the real API server (trust T-14)."""

from collections.abc import Iterator

import pytest
from real.chart.policed import Policed, change_environment, is_denied, variable, with_env

from harness.objects import PODS, make_pod

pytestmark = [pytest.mark.control_plane, pytest.mark.chart, pytest.mark.timeout(600)]

GPU = {"nvidia.com/gpu": "1"}


@pytest.fixture(scope="module", autouse=True)
def strictly(policed: Policed) -> Iterator[None]:
    """Let the policy look at every pod."""
    strict = {"enabled": True, "everyPod": True, "denyEnvFrom": True}
    change_environment(policed, strict, with_env(make_pod("probe"), variable("NVIDIA_VISIBLE_DEVICES", "all")))
    yield
    policed.change({})


def test_strictly_pods_without_shares_do_not_show_themselves_cards(policed: Policed, name: str) -> None:
    with is_denied("container main sets NVIDIA_VISIBLE_DEVICES", "did not ask for"):
        policed.tenant.create(PODS, with_env(make_pod(name), variable("NVIDIA_VISIBLE_DEVICES", "0")))
    harmless = (variable("NVIDIA_VISIBLE_DEVICES", "void"), variable("LD_PRELOAD", "/opt/own.so"))
    policed.tenant.create(PODS, with_env(make_pod(name), *harmless))


def test_strictly_pods_name_their_variables(policed: Policed, name: str) -> None:
    source = [{"configMapRef": {"name": "a"}}]
    with is_denied("container main has envFrom", "one by one in env"):
        policed.tenant.create(PODS, with_env(make_pod(name, limits=GPU), envFrom=source))
    with is_denied("container main has envFrom", "one by one in env"):
        policed.tenant.create(PODS, with_env(make_pod(name), envFrom=source))


def test_strictly_gpulooms_own_pods_show_themselves_cards(policed: Policed) -> None:
    objects = policed.admin.get("/apis/apps/v1/namespaces/gpu-system/daemonsets")["items"]
    assert objects
    for daemon in objects:
        pod = {"metadata": {"name": "own"}, "spec": daemon["spec"]["template"]["spec"]}
        shown = [one["name"] for container in pod["spec"]["containers"] for one in container["env"]]
        assert "NVIDIA_VISIBLE_DEVICES" in shown
        policed.admin.create("/api/v1/namespaces/gpu-system/pods?dryRun=All", pod)
