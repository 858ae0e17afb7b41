"""What happens to pods with shares of cards while their node lives: a real kubelet, real containers."""

import asyncio
import json
import time

import pytest

from gpuloom.node.podresources import read_holders
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.shares import decode_shares
from harness.objects import PODS

from .rightness import find_wrongs

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(600)]


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


def test_a_pod_that_waits_to_be_started_again_outlives_a_restart_of_the_kubelet(site, start):
    """A kubelet refuses a pod that does not run while its plugin has not registered again."""
    start("crashes", [1000], command="exit 1", restart="Always")
    site.api.wait_for(
        f"{PODS}/crashes",
        lambda pod: any(
            one["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff"
            for one in pod["status"].get("containerStatuses", ())
        ),
    )
    site.restart_kubelet()
    site.wait_for_devices(20)
    start("after", [2000])
    wait_until_running(site, "after")
    assert site.api.get(f"{PODS}/crashes")["status"]["phase"] != "Failed"


def test_a_killed_plugin_leaves_running_pods_alone_and_serves_new_ones_when_it_is_back(site, start):
    start("survivor", [1000])
    wait_until_running(site, "survivor")
    site.plugin.stop(grace_s=0)
    site.wait_for_devices(0)
    site.start_plugin()
    start("newcomer", [2000])
    wait_until_running(site, "newcomer")
    assert (restarts(site, "survivor"), memory_limit(site, "newcomer")) == ([0], 2000)


CRASH_ONCE = "env; cd /usr/local/vgpu; test -e mark || { : > mark; exit 1; }; : > again; sleep 3600"


def test_p_13_a_container_that_crashed_keeps_its_share_and_its_directory(site, start):
    start("crasher", [1000], command=CRASH_ONCE, restart="Always")
    site.api.wait_for(
        f"{PODS}/crasher",
        lambda pod: any(one["restartCount"] and one["ready"] for one in pod["status"].get("containerStatuses", ())),
    )
    uid = site.api.get(f"{PODS}/crasher")["metadata"]["uid"]
    files = site.node.run(["ls", f"/usr/local/vgpu/containers/{uid}_c0"]).split()
    assert {"again", "mark"} <= {*files}


def sicken(site, card):
    """Let the driver report a critical error of a card that then does not answer."""
    faults = "".join(f'[[faults]]\nkind = "{kind}"\ncard = {card}\n' for kind in ("xid", "failing"))
    site.describe_cards(faults)
    site.wait_for_devices(10)


def test_an_error_withdraws_a_card_until_it_recovers(site):
    sicken(site, 0)
    site.describe_cards()
    site.wait_for_devices(20)


def test_pods_on_a_card_that_falls_sick_go_on_and_the_next_pod_gets_another_card(site, start):
    start("on-the-card", [1000])
    wait_until_running(site, "on-the-card")
    (card,) = decode_shares(annotation(site, "on-the-card", "vgpu-devices-allocated"))[0]
    sicken(site, [gpu.uuid for gpu in site.gpus].index(card.uuid))
    start("elsewhere", [1000])
    wait_until_running(site, "elsewhere")
    (other,) = decode_shares(annotation(site, "elsewhere", "vgpu-devices-allocated"))[0]
    site.describe_cards()
    site.wait_for_devices(20)
    assert (restarts(site, "on-the-card"), other.uuid != card.uuid) == ([0], True)


class Steps:
    """What happens to a node, one after another; the pods stay. No other test's pods have these names."""

    def __init__(self, site, start):
        self.site = site
        self.start = start

    def shares_in_init_and_regular_containers(self):
        self.start("step-init", [1100], init_memory_mib=[1200])
        wait_until_running(self.site, "step-init")

    def two_containers_in_one_pod(self):
        self.start("step-two", [1300, 1400])
        wait_until_running(self.site, "step-two")

    def two_pods_at_once(self):
        self.start("step-at-once-1", [1500])
        self.start("step-at-once-2", [1600])
        wait_until_running(self.site, "step-at-once-1", "step-at-once-2")

    def kubelet_restarted_while_pods_run(self):
        self.site.restart_kubelet()
        self.site.wait_for_devices(20)

    def plugin_killed(self):
        self.site.plugin.stop(grace_s=0)
        self.site.wait_for_devices(0)

    def plugin_started_again(self):
        self.site.start_plugin()

    def a_pod_after_all_that(self):
        self.start("step-late", [1700])
        wait_until_running(self.site, "step-late")

    def card_marked_unhealthy_by_an_xid(self):
        sicken(self.site, 0)

    def card_recovered(self):
        self.site.describe_cards()
        self.site.wait_for_devices(20)


def test_allocatable_annotations_and_environments_are_right_after_each_step(site, start):
    steps = Steps(site, start)
    wrongs = {}
    for step in (
        steps.shares_in_init_and_regular_containers,
        steps.two_containers_in_one_pod,
        steps.two_pods_at_once,
        steps.kubelet_restarted_while_pods_run,
        steps.plugin_killed,
        steps.plugin_started_again,
        steps.a_pod_after_all_that,
        steps.card_marked_unhealthy_by_an_xid,
        steps.card_recovered,
    ):
        step()
        wrongs[step.__name__] = settle(site, is_plugin_up=step != steps.plugin_killed)
    assert not any(wrongs.values()), wrongs


def settle(site, *, is_plugin_up, within_s=15.0):
    """Give scheduler, plugin and kubelet a moment to be done with each other; what is wrong after it."""
    end_s = time.monotonic() + within_s
    while wrongs := find_wrongs(site, is_plugin_up=is_plugin_up):
        if time.monotonic() > end_s:
            return wrongs
        time.sleep(0.2)
    return []


def test_a_hang_up_reads_the_nodes_settings_again(site):
    site.node_config.write_text(json.dumps({"nodeconfig": [{"name": site.node.name, "devicesplitcount": 5}]}))
    hang_up(site)
    site.wait_for_devices(10)
    site.node_config.unlink()
    hang_up(site)
    site.wait_for_devices(20)


def hang_up(site):
    pid = site.node.run(["pidof", "-x", "-s", "gpuloom"]).strip()
    site.node.run(["kill", "-HUP", pid])
