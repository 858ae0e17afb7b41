"""The examples for Argo CD and Flux install the chart; Argo CD ignores exactly what a cluster fills in."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages.reading import ROOT
from real.chart.kubectl import kubectl
from real.chart.waiting import WEBHOOK

from harness.controlplane import ControlPlane, find_free_ports
from harness.gpuloom import GPULOOM
from harness.helm import CHART, NAMESPACE, RELEASE, Helm, HelmError, kube_version
from harness.processes import ChildProcess

NAMESPACE_MADE, APPLICATION = yaml.safe_load_all((ROOT / "docs/examples/argocd.yaml").read_text())
SPEC: dict[str, Any] = APPLICATION["spec"]
FLUX_NAMESPACE, SOURCE, HELM_RELEASE = yaml.safe_load_all((ROOT / "docs/examples/flux.yaml").read_text())
CERTIFICATE, TOKEN = "gpuloom-scheduler-tls", "gpuloom-kube-scheduler-token"
LABEL = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
"""A value that the API server takes for a label."""
OF_THE_API_SERVER = {"metadata", "status"}
Objects = dict[tuple[str, str], Any]


def read_values() -> dict[str, Any]:
    """Return the values of the example for Argo CD, with the tested cluster's version put in."""
    told = json.dumps(SPEC["source"]["helm"]["valuesObject"])
    assert told.count("KUBERNETES") == 1
    values: dict[str, Any] = json.loads(told.replace("KUBERNETES", kube_version()))
    return values


def read_live(plane: ControlPlane, manifest: Path) -> Objects:
    """Return the objects of a manifest as they are in the cluster, without what API server and controllers report."""
    items = json.loads(kubectl(plane, "get", "-o=json", "-f", manifest))["items"]
    return {
        (one["kind"], one["metadata"]["name"]): {k: v for k, v in one.items() if k not in OF_THE_API_SERVER}
        for one in items
    }


def list_changes(before: Any, after: Any, pointer: str = "") -> Iterator[str]:
    """Give the JSON pointers of what is new or other than it was."""
    if before == after:
        return
    alike = type(before) is type(after)
    if alike and isinstance(before, dict):
        for key in before.keys() | after.keys():
            yield from list_changes(before.get(key), after.get(key), f"{pointer}/{key}")
    elif alike and isinstance(before, list) and len(before) == len(after):
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from list_changes(old, new, f"{pointer}/{position}")
    else:
        yield pointer


def start_scheduler(stack: ExitStack, plane: ControlPlane, log: Path) -> None:
    """Start the scheduler as the chart does, as far as its certificate is concerned, until the stack closes."""
    (port,) = find_free_ports(1)
    command: list[str | Path] = [
        GPULOOM,
        "scheduler",
        f"--kubeconfig={plane.kubeconfig}",
        f"--http_bind=127.0.0.1:{port}",
        "--metrics-bind-address=127.0.0.1:0",
        f"--tls-self-manage={NAMESPACE}/{CERTIFICATE}",
        "--tls-hosts=127.0.0.1",
        "--tls-webhook=gpuloom-webhook",
    ]
    stack.enter_context(ChildProcess("gpuloom scheduler", command, log=log))


def wait_until_filled(plane: ControlPlane) -> None:
    """Wait for certificate, token, and whom the API server is to trust."""
    for name in (CERTIFICATE, TOKEN):
        plane.api.wait_for(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}", lambda secret: secret.get("data"))
    plane.api.wait_for(WEBHOOK, lambda found: "caBundle" in found["webhooks"][0]["clientConfig"])


@pytest.mark.chart
@pytest.mark.control_plane
def test_argo_cd_is_told_to_ignore_what_the_cluster_fills_in_and_what_the_chart_writes_stays(
    control_plane_binaries: None, helm: Helm, tmp_path: Path
) -> None:
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(yaml.safe_dump_all(helm.template(read_values())))
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(tmp_path / "plane"))
        plane.api.create("/api/v1/namespaces", NAMESPACE_MADE)
        kubectl(plane, "apply", "-f", manifest)
        before = read_live(plane, manifest)
        plane.start_controller_manager()
        start_scheduler(stack, plane, tmp_path / "scheduler.log")
        wait_until_filled(plane)
        after = read_live(plane, manifest)
        changed = {(*key, pointer) for key in before for pointer in list_changes(before[key], after[key])}
        ignored = {
            (one["kind"], one["name"], pointer) for one in SPEC["ignoreDifferences"] for pointer in one["jsonPointers"]
        }
        assert changed == ignored
        # What Argo CD compares, and Flux: a merge over what was applied, and an apply by the API server.
        assert kubectl(plane, "diff", "-f", manifest) == ""
        by_server = ("--server-side", "--force-conflicts", "--field-manager=flux")
        assert kubectl(plane, "diff", *by_server, "-f", manifest) == ""


def test_the_example_installs_the_chart_of_this_checkout_where_the_page_does() -> None:
    source, destination = SPEC["source"], SPEC["destination"]
    assert (ROOT / source["path"], source["helm"]["releaseName"]) == (CHART, RELEASE)
    assert NAMESPACE_MADE["metadata"]["name"] == destination["namespace"] == NAMESPACE
    modes = ("enforce", "warn", "audit")
    assert NAMESPACE_MADE["metadata"]["labels"] == {
        f"pod-security.kubernetes.io/{mode}": "privileged" for mode in modes
    }
    assert yaml.safe_load((ROOT / "docs/examples/namespace.yaml").read_text()) == NAMESPACE_MADE
    groups = {one["kind"]: one.get("group", "") for one in SPEC["ignoreDifferences"]}
    assert groups == {"Secret": "", "MutatingWebhookConfiguration": "admissionregistration.k8s.io"}
    assert {one.get("namespace") for one in SPEC["ignoreDifferences"]} == {NAMESPACE, None}


@pytest.mark.chart
def test_an_argo_cd_that_was_not_told_the_clusters_version_is(helm: Helm) -> None:
    with pytest.raises(HelmError, match=r"image\.tag is KUBERNETES, but .* write your cluster's"):
        helm.template(SPEC["source"]["helm"]["valuesObject"])


def test_the_example_for_flux_installs_the_same_as_that_for_argo_cd() -> None:
    spec, chart = HELM_RELEASE["spec"], HELM_RELEASE["spec"]["chart"]["spec"]
    assert FLUX_NAMESPACE == NAMESPACE_MADE
    assert (spec["releaseName"], HELM_RELEASE["metadata"]["namespace"]) == (RELEASE, NAMESPACE)
    values = SPEC["source"]["helm"]["valuesObject"]
    assert (chart["chart"], spec["values"]) == (SPEC["source"]["path"], {"global": values["global"]})
    assert values["scheduler"] == {"kubeScheduler": {"image": {"tag": "KUBERNETES"}}}
    assert chart["sourceRef"] == {"kind": SOURCE["kind"], "name": SOURCE["metadata"]["name"]}
    assert SOURCE["metadata"]["namespace"] == NAMESPACE


def test_labels_are_valid_where_flux_adds_the_commit_to_the_charts_version(helm: Helm, tmp_path: Path) -> None:
    assert HELM_RELEASE["spec"]["chart"]["spec"]["reconcileStrategy"] == "Revision"
    chart = shutil.copytree(CHART, tmp_path / "gpuloom")
    facts = yaml.safe_load((chart / "Chart.yaml").read_text())
    named = {**facts, "version": f"{facts['version']}+29d1b3a4d3b9"}
    (chart / "Chart.yaml").write_text(yaml.safe_dump(named))
    labels = [label for one in helm.template(chart=chart) for label in list_labels(one)]
    assert f"gpuloom-{facts['version']}_29d1b3a4d3b9" in labels
    assert [label for label in labels if not LABEL.fullmatch(label)] == []


def list_labels(node: Any) -> Iterator[str]:
    """List the values of all labels in an object, its templates' too."""
    if isinstance(node, dict):
        yield from node.get("labels", {}).values() if isinstance(node.get("labels"), dict) else ()
        for value in node.values():
            yield from list_labels(value)
    elif isinstance(node, list):
        for value in node:
            yield from list_labels(value)
