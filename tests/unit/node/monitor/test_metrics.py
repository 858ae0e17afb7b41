"""What Prometheus is told."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from unit.node.monitor.regions import Content, Process, put

from gpuloom.model.mig import MigAllocation, MigRuntime, Placement
from gpuloom.node.monitor.cards import CardReading, CardUse
from gpuloom.node.monitor.exporter import render
from gpuloom.node.monitor.families import MigUse, Snapshot
from gpuloom.node.monitor.legacymetrics import LEGACY_FAMILIES
from gpuloom.node.monitor.metrics import HAMI_FAMILIES, OWN_FAMILIES
from gpuloom.node.monitor.regionfile import read_region_file
from gpuloom.node.monitor.rounds import ContainerUse, Round

ALL = (*HAMI_FAMILIES, *OWN_FAMILIES, *LEGACY_FAMILIES)
NOW_S = 1_700_000_100.0
CARD = {"node": "n1", "device_index": "1", "device_uuid": "GPU-a", "device_type": "NVIDIA-Tesla T4"}
DEVICE = {"namespace": "ns", "pod": "p", "container": "c", "vdevice_index": "0", "device_uuid": "GPU-a"}
LEGACY_CARD = {"nodeid": "n1", "deviceidx": "1", "deviceuuid": "GPU-a", "devicetype": "NVIDIA-Tesla T4"}
LEGACY_DEVICE = {"podnamespace": "ns", "podname": "p", "ctrname": "c", "vdeviceid": "0", "deviceuuid": "GPU-a"}
MIG = {"mig_uuid": "MIG-1", "profile": "1g.5gb", "gpu_instance_id": "7", "compute_instance_id": "3"}


def read(tmp_path, content):
    return read_region_file(str(put(tmp_path, "u1", "c", content))).region


@pytest.fixture
def snapshot(tmp_path):
    process = Process(used=((1, 2, 3, 4, 10),), sm=(7,))
    region = read(tmp_path, Content(uuids=(b"GPU-a",), limits=(99,), processes=(process,)))
    allocation = MigAllocation(0, 0, "GPU-a", "1g.5gb", Placement(0, 1), MigRuntime("MIG-1", 7, 3))
    return Snapshot(
        "n1",
        NOW_S,
        Round((ContainerUse("ns", "p", "c", region.devices, 1_700_000_000),), waiting=2, unreadable=3, unknown=4),
        CardReading((CardUse("GPU-a", 1, "Tesla T4", 1000, 80, 20),)),
        (MigUse("ns", "p", "c", allocation),),
        round_duration_s=0.25,
        findings={"CardNotGiven": 1},
        sources={"kubelet": True},
        processes={"pod": 4},
        counters={"directories_removed": 5},
    )


def samples(snapshot, name):
    found = text_string_to_metric_families(render(ALL, snapshot).decode())
    return [(sample.labels, sample.value) for family in found for sample in family.samples if sample.name == name]


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("hami_host_gpu_memory_used_bytes", CARD, 1000),
        ("hami_host_gpu_utilization_ratio", CARD, 80),
        (
            "hami_host_gpu_memory_controller_utilization_ratio",
            {key: value for key, value in CARD.items() if key != "node"},
            20,
        ),
        ("hami_vgpu_memory_used_bytes", DEVICE, 10),
        ("hami_vgpu_memory_limit_bytes", DEVICE, 99),
        ("hami_container_device_memory_bytes", DEVICE, 10),
        ("hami_container_device_utilization_ratio", DEVICE, 7),
        ("hami_container_last_kernel_elapsed_seconds", DEVICE, 100),
        ("hami_vgpu_memory_context_bytes", DEVICE, 1),
        ("hami_vgpu_memory_module_bytes", DEVICE, 2),
        ("hami_vgpu_memory_buffer_bytes", DEVICE, 3),
        ("hami_mig_device_info", {**DEVICE, **MIG}, 1),
        ("HostGPUMemoryUsage", LEGACY_CARD, 1000),
        ("HostCoreUtilization", LEGACY_CARD, 80),
        ("vGPU_device_memory_usage_in_bytes", LEGACY_DEVICE, 10),
        ("vGPU_device_memory_limit_in_bytes", LEGACY_DEVICE, 99),
        (
            "Device_memory_desc_of_container",
            {**LEGACY_DEVICE, "context": "1", "module": "2", "data": "3", "offset": "4"},
            10,
        ),
        ("Device_utilization_desc_of_container", LEGACY_DEVICE, 7),
        ("Device_last_kernel_of_container", LEGACY_DEVICE, 100),
        ("MigInfo", {**LEGACY_DEVICE, "instanceid": "7"}, 1),
        ("gpuloom_monitor_round_seconds", {}, 0.25),
        ("gpuloom_monitor_source_up", {"source": "kubelet"}, 1),
        ("gpuloom_monitor_directories_removed_total", {}, 5),
        ("gpuloom_audit_findings", {"finding": "CardNotGiven"}, 1),
        ("gpuloom_audit_processes", {"owner": "pod"}, 4),
    ],
)
def test_a_sample_has_its_name_labels_and_value(snapshot, name, labels, value):
    assert samples(snapshot, name) == [({**labels, "zone": "vGPU"}, value)]


def test_regions_are_counted_by_state(snapshot):
    found = {labels["state"]: value for labels, value in samples(snapshot, "gpuloom_monitor_regions")}
    assert found == {"read": 1, "waiting": 2, "unreadable": 3, "unsettled": 0, "unknown": 4}


def test_a_container_that_never_ran_a_kernel_has_no_time_since(snapshot, tmp_path):
    use = ContainerUse("ns", "p", "c", read(tmp_path, Content()).devices, last_kernel_s=0)
    assert not samples(replace(snapshot, round=Round((use,))), "hami_container_last_kernel_elapsed_seconds")


def test_a_kernel_in_the_future_was_just_now(snapshot):
    found = samples(replace(snapshot, now_s=1.0), "hami_container_last_kernel_elapsed_seconds")
    assert [value for _, value in found] == [0]


def test_an_instance_that_is_not_made_yet_is_not_told(snapshot):
    (use,) = snapshot.migs
    planned = replace(use, allocation=replace(use.allocation, runtime=None))
    assert not samples(replace(snapshot, migs=(planned,)), "hami_mig_device_info")


def test_a_silent_driver_leaves_only_the_hosts_figures_out(snapshot):
    silent = replace(snapshot, cards=None)
    assert (
        samples(silent, "hami_host_gpu_memory_used_bytes"),
        len(samples(silent, "hami_vgpu_memory_used_bytes")),
    ) == (
        [],
        1,
    )


def test_a_card_that_does_not_tell_its_load_has_no_sample_of_it(snapshot):
    divided = replace(snapshot, cards=CardReading((CardUse("GPU-a", 0, "A100", 1000, None, None),)))
    assert not samples(divided, "hami_host_gpu_utilization_ratio")


def test_the_page_names_every_metric_with_its_labels_and_no_other():
    text = (Path(__file__).parents[4] / "docs/monitor.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE)
    told = {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert told == {family.shown_name: family.labels for family in ALL}
