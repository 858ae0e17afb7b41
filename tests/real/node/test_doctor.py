"""The doctor on a node with a real kubelet: what its sockets and its own notes tell of our plugin, and of another."""

import json
from typing import Any

import pytest

from harness.gpuloom import GPULOOM

from .conftest import RESOURCE, Site

pytestmark = [pytest.mark.control_plane, pytest.mark.real_node, pytest.mark.timeout(600)]

NOTES = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def examine(site: Site, *flags: str) -> dict[str, list[dict[str, Any]]]:
    """Findings by check; the doctor runs inside the node."""
    told = site.node.run(["sh", "-c", f"{GPULOOM} doctor --json {' '.join(flags)} || test $? = 1"])
    findings: dict[str, list[dict[str, Any]]] = {}
    for item in json.loads(told)["items"]:
        findings.setdefault(item["check"], []).append(item)
    return findings


@pytest.mark.parametrize("is_told", [True, False])
def test_a_node_whose_plugin_works_is_told_as_such(site: Site, *, is_told: bool) -> None:
    """Without flags those of the running plugin count: its cards and the node's name."""
    findings = examine(site, *([f"--node-name={site.node.name}", f"--cards={site.cards}"] if is_told else []))
    checks = ("cards", "kubelet", "plugin", "second-plugin", "preload", "configuration")
    assert {check: findings[check][0]["severity"] for check in checks} == dict.fromkeys(checks, "ok")


def test_the_kubelets_own_notes_name_what_our_plugin_offered(site: Site) -> None:
    registered = json.loads(site.node.run(["cat", NOTES]))["Data"]["RegisteredDevices"][RESOURCE]
    assert sorted({each.rpartition("-")[0] for each in registered}) == sorted(gpu.uuid for gpu in site.gpus)


def test_a_plugin_that_stopped_is_found_out(site: Site) -> None:
    site.plugin.stop()
    try:
        assert examine(site)["plugin"][0]["severity"] == "error"
    finally:
        site.start_plugin()
