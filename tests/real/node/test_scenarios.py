"""What happens to pods with shares of cards while their node lives: a real kubelet, real containers."""

import asyncio

import pytest

from gpuloom.node.podresources import read_holders
from gpuloom.node.settings import NodeSettings
from harness.objects import PODS

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(240)]


def wait_until_running(site, *names):
    for name in names:
        site.api.wait_for(f"{PODS}/{name}", lambda pod: pod["status"]["phase"] == "Running")


def memory_limit(site, pod, container="c0"):
    """The limit that a container printed about itself, in MiB."""
    lines = site.node.container_log(pod, container=container).splitlines()
    (limit,) = (line for line in lines if line.startswith("CUDA_DEVICE_MEMORY_LIMIT_0="))
    return int(limit.partition("=")[2].removesuffix("m"))


def annotation(site, pod, key):
    return site.api.get(f"{PODS}/{pod}")["metadata"]["annotations"][f"hami.io/{key}"]


def restarts(site, pod):
    return [status["restartCount"] for status in site.api.get(f"{PODS}/{pod}")["status"]["containerStatuses"]]


def holders(site):
    plugins_dir = site.node.reach("/var/lib/kubelet/device-plugins")
    return asyncio.run(read_holders(NodeSettings(site.node.name, plugins_dir=plugins_dir)))


def test_an_init_container_and_a_regular_one_have_a_share_each(site, start):
    start("init", [2000], init_memory_mib=[1000])
    wait_until_running(site, "init")
    assert [memory_limit(site, "init", name) for name in ("i0", "c0")] == [1000, 2000]


def test_two_containers_of_a_pod_have_a_share_each(site, start):
    start("two", [1000, 2000])
    wait_until_running(site, "two")
    assert [memory_limit(site, "two", name) for name in ("c0", "c1")] == [1000, 2000]


def test_a_pod_of_two_containers_is_done_after_the_second(site, start):
    start("done", [1000, 2000])
    wait_until_running(site, "done")
    assert (annotation(site, "done", "bind-phase"), annotation(site, "done", "vgpu-devices-to-allocate")) == (
        "success",
        ";;",
    )


def test_pods_that_start_at_once_have_their_own_shares(site, start):
    sizes = {"at-once-1": 1100, "at-once-2": 1200, "at-once-3": 1300}
    for name, size in sizes.items():
        start(name, [size])
    wait_until_running(site, *sizes)
    assert {name: memory_limit(site, name) for name in sizes} == sizes


def test_the_kubelet_says_that_every_pod_holds_one_device(site, start):
    for name in ("held-1", "held-2"):
        start(name, [1000])
    wait_until_running(site, "held-1", "held-2")
    assert sorted(*zip(*holders(site).values(), strict=True)) == [("default", "held-1"), ("default", "held-2")]


def test_a_restarted_kubelet_leaves_running_pods_alone_and_starts_new_ones(site, start):
    start("before", [1000])
    wait_until_running(site, "before")
    held = {device: {*pods} for device, pods in holders(site).items()}
    site.restart_kubelet()
    site.wait_for_devices(20)
    start("after", [2000])
    wait_until_running(site, "after")
    assert (restarts(site, "before"), memory_limit(site, "after")) == ([0], 2000)
    assert held.items() <= {device: {*pods} for device, pods in holders(site).items()}.items()


def test_a_killed_plugin_leaves_running_pods_alone_and_serves_new_ones_when_it_is_back(site, start):
    start("survivor", [1000])
    wait_until_running(site, "survivor")
    site.plugin.stop(grace_s=0)
    site.wait_for_devices(0)
    site.start_plugin()
    start("newcomer", [2000])
    wait_until_running(site, "newcomer")
    assert (restarts(site, "survivor"), memory_limit(site, "newcomer")) == ([0], 2000)


def test_an_error_withdraws_a_card_until_it_recovers(site):
    site.describe_cards('[[faults]]\nkind = "xid"\ncard = 0\n[[faults]]\nkind = "failing"\ncard = 0\n')
    site.wait_for_devices(10)
    site.describe_cards()
    site.wait_for_devices(20)


def test_a_hang_up_reads_the_cards_settings_again(site):
    plugin = site.plugin
    pid = site.node.run(["pidof", "-x", "-s", "gpuloom"]).strip()
    site.node.run(["kill", "-HUP", pid])
    plugin.wait_until(
        lambda: "configuration is read again" in plugin.log.read_text(), what="reading its configuration again"
    )
    site.wait_for_devices(20)
