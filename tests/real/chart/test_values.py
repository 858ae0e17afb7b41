"""Values that nobody could mean are refused with their place; every value has its row in the docs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from real.chart.objects import find_container, list_pod_specs, with_values

from harness.helm import CHART, Helm, HelmError

DOCS = Path(__file__).parents[3] / "docs/installation.md"
ROW = re.compile(r"^\| `([\w.-]+)` \| (.*?) \| ", re.MULTILINE)


def list_leaves(values: Any, schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Give the values that a table names: whatever has no properties of its own, an image as a whole."""
    if schema.get("$ref") == "#/definitions/image" or not isinstance(values, dict) or "properties" not in schema:
        yield path, values
        return
    for key, value in values.items():
        yield from list_leaves(value, schema["properties"][key], f"{path}.{key}" if path else key)


def describe_default(value: Any) -> str:
    """Return what a table says of a value's default; of an image, as much of its reference as the values have."""
    if not isinstance(value, dict) or "pullPolicy" not in value:
        return f"`{json.dumps(value)}`"
    name = "/".join(part for part in (value["registry"], value["repository"]) if part)
    return f"`{name}:{value['tag']}`" if value["tag"] else f"`{name}`" if name else "image"


def read_schema() -> Any:
    return json.loads((CHART / "values.schema.json").read_text())


def read_values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())


def list_properties(schema: Any, path: str = "") -> Iterator[str]:
    if "properties" not in schema:
        yield path
        return
    for key, below in schema["properties"].items():
        yield from list_properties(below, f"{path}.{key}" if path else key)


@pytest.mark.chart
def test_lint_finds_nothing(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.lint(with_values({}))


@pytest.mark.chart
@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"scheduler": {"replica": 3}}, "at '/scheduler': additional properties 'replica' not allowed"),
        ({"scheduler": {"replicas": 0}}, "at '/scheduler/replicas': minimum: got 0, want 1"),
        ({"scheduler": {"nodeLockExpire": "five"}}, "at '/scheduler/nodeLockExpire': 'five' does not match pattern"),
        ({"scheduler": {"defaultSchedulerPolicy": {"nodeSchedulerPolicy": "pack"}}}, "one of 'binpack', 'spread'"),
        ({"scheduler": {"defaultSchedulerPolicy": {"gpuSchedulerPolicy": "pack"}}}, "'pack' does not match pattern"),
        ({"scheduler": {"nodeChoice": "both"}}, "at '/scheduler/nodeChoice'"),
        ({"scheduler": {"nodeChoiceWeight": 0}}, "at '/scheduler/nodeChoiceWeight': minimum: got 0, want 1"),
        (
            {"scheduler": {"certManager": {"issuerRef": {"kind": "Clusterissuer"}}}},
            "at '/scheduler/certManager/issuerRef/kind': value must be one of 'Issuer', 'ClusterIssuer'",
        ),
        ({"scheduler": {"workload": {"pods": [{"cpu": 1}]}}}, "additional properties 'cpu' not allowed"),
        ({"scheduler": {"workload": {"key": "a/b"}}}, "at '/scheduler/workload/key': 'a/b' does not match pattern"),
        ({"resourceName": "gpu"}, "at '/resourceName': 'gpu' does not match pattern"),
        ({"devicePlugin": {"deviceMemoryScaling": 0}}, "at '/devicePlugin/deviceMemoryScaling'"),
        (
            {"devicePlugin": {"library": {"image": {"digest": "sha256:1"}}}},
            "at '/devicePlugin/library/image/digest': 'sha256:1' does not match pattern",
        ),
        (
            {"global": {"imageRegistry": "https://m.example"}},
            "at '/global/imageRegistry': 'https://m.example' does not",
        ),
        ({"global": {"imageRegistry": "m.example/"}}, "at '/global/imageRegistry': 'm.example/' does not match"),
        (
            {"scheduler": {"kubeScheduler": {"image": {"registry": "m.example/k8s/"}}}},
            "at '/scheduler/kubeScheduler/image/registry': 'm.example/k8s/' does not match pattern",
        ),
        (
            {"scheduler": {"kubeScheduler": {"podMaxBackoffSeconds": 0}}},
            "at '/scheduler/kubeScheduler/podMaxBackoffSeconds': minimum: got 0, want 1",
        ),
        ({"global": {"imageTag": "v1:2"}}, "at '/global/imageTag': 'v1:2' does not match pattern"),
        *(
            (
                {"devicePlugin": {"monitor": {"image": {"tag": tag}}}},
                f"at '/devicePlugin/monitor/image/tag': '{tag}' does not match pattern",
            )
            for tag in ("-1", "a/b", "v1@sha256", " ", "a" * 129)
        ),
        ({"devicePlugin": {"image": {"tag": 1.5}}}, "at '/devicePlugin/image/tag': got number, want string"),
        ({"global": {"imagePullSecrets": [{"secret": "a"}]}}, "at '/global/imagePullSecrets/0'"),
        (
            {"devicePlugin": {"monitor": {"resyncInterval": "500ms"}}},
            "at '/devicePlugin/monitor/resyncInterval': '500ms'",
        ),
        *(
            ({part: {"tolerations": [toleration]}}, f"at '/{part}/tolerations/0{complaint}")
            for part in ("scheduler", "devicePlugin")
            for toleration, complaint in (
                ({"operator": "exists"}, "/operator': value must be one of 'Exists', 'Equal', 'Lt', 'Gt', ''"),
                ({"effect": "NoExec"}, "/effect': value must be one of 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"),
                ({"values": "a"}, "': additional properties 'values' not allowed"),
                ({"value": True}, "/value': got boolean, want string"),
                ({"tolerationSeconds": "9"}, "/tolerationSeconds': got string, want integer"),
            )
        ),
        ({"devicePlugin": {"deviceListStrategy": "env"}}, "at '/devicePlugin/deviceListStrategy'"),
        ({"devicePlugin": {"nvidiaDriverRoot": "auto"}}, "at '/devicePlugin/nvidiaDriverRoot': 'auto'"),
        (
            {"devicePlugin": {"extraEnvs": [{"name": "A", "value": 1}]}},
            "at '/devicePlugin/extraEnvs/0/value': got number",
        ),
        ({"devicePlugin": {"extraEnvs": [{"value": "a"}]}}, "at '/devicePlugin/extraEnvs/0': missing property 'name'"),
        ({"devices": {"nvida": {}}}, "at '/devices': additional properties 'nvida' not allowed"),
        ({"vendors": {"profiles": {"corp.yaml": "a"}}}, "additional properties 'corp.yaml' not allowed"),
        ({"vendors": {"ownedAnnotations": ["acme.example/"]}}, "at '/vendors/ownedAnnotations/0': 'acme.example/'"),
        ({"vendors": {"ownedAnnotations": ['a"]']}}, "at '/vendors/ownedAnnotations/0'"),
        ({"vendors": {"ownedAnnotations": [""]}}, "at '/vendors/ownedAnnotations/0'"),
        ({"vendors": {"ownedAnnotations": ["a" * 64]}}, "at '/vendors/ownedAnnotations/0'"),
        *(
            ({"scheduler": {"defragmentation": {key: "0s"}}}, f"at '/scheduler/defragmentation/{key}': '0s' does not")
            for key in ("wait", "interval", "timeout")
        ),
        (
            {"scheduler": {"dashboard": {"viewers": [{"kind": "ServiceAccount", "name": "a"}]}}},
            "at '/scheduler/dashboard/viewers/0': missing property 'namespace'",
        ),
        ({"mockDevicePlugin": {"enabled": True}}, "additional properties 'mockDevicePlugin' not allowed"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_its_place(helm: Helm, values: Any, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        helm.template(with_values(values))


@pytest.mark.chart
@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"device-config": {"content": "nvidia: ["}}, "device-config.content is not YAML"),
        ({"device-config": {"content": "nvidia: {defaultCores: 5}"}}, "the device configuration names no resource"),
        ({"scheduler": {"workload": {"pods": [{}], "configMap": "mine"}}}, "pods and configMap mine: give one of them"),
        (
            {
                "scheduler": {"cpuOnlyPods": {"avoidGpuNodes": True}},
                "devicePlugin": {"nvidiaNodeSelector": {"gpu": None}},
            },
            "scheduler.cpuOnlyPods.avoidGpuNodes needs nodeLabels",
        ),
        (
            {
                "scheduler": {"nodeLabelSelector": {"gpu": "on", "zone": "a"}},
                "devicePlugin": {"nvidiaNodeSelector": {"gpu": "gpuloom"}},
            },
            "scheduler.nodeLabelSelector is gpu=on, but devicePlugin.nvidiaNodeSelector gpu=gpuloom",
        ),
        (
            {"scheduler": {"admissionWebhook": {"clientCA": {"names": ["apiserver"]}}}},
            "scheduler.admissionWebhook.clientCA.names is apiserver, but without clientCA.configMap",
        ),
        ({"resourceName": ""}, "resourceName is empty: nobody can ask for NVIDIA's cards"),
        (
            {"scheduler": {"certManager": {"issuerRef": {"name": "corp"}}}},
            "scheduler.certManager.issuerRef.name is corp, but without scheduler.certManager.enabled=true no issuer",
        ),
        (
            {"scheduler": {"certManager": {"enabled": True, "issuerRef": {"kind": "ClusterIssuer"}}}},
            "scheduler.certManager.issuerRef.kind is ClusterIssuer, but it has no name",
        ),
        ({"resourceName": ""}, "name the resource, or set devicePlugin.enabled=false"),
        (
            {"device-config": {"content": "nvidia:\namd: {resourceCountName: amd.com/gpu}"}},
            "device-config.content has no nvidia.resourceCountName: nobody can ask for NVIDIA's cards",
        ),
        *(
            (
                {"devicePlugin": {"nodeConfiguration": {"config": config}}},
                f"devicePlugin.nodeConfiguration.config{complaint}",
            )
            for config, complaint in (
                ('{"nodeconfig": [}', " is not JSON: invalid character '}'"),
                ("nodeconfig: []", ' must be {"nodeconfig": [...]} with a list of nodes, but is nodeconfig: []'),
                ('{"nodeconfig": []} x', " is not JSON: invalid character 'x' after top-level value"),
                ("[]", ' must be {"nodeconfig": [...]} with a list of nodes, but is []'),
                ('{"nodes": []}', " has the unknown key nodes, known is nodeconfig"),
                ('{"nodeconfig": [], "extra": 1}', " has the unknown key extra, known is nodeconfig"),
                ('{"nodeconfig": [{"devicesplitcount": 4}]}', " has an entry that names no node: "),
                ('{"nodeconfig": {"name": "a"}}', ' must be {"nodeconfig": [...]} with a list of nodes, but has'),
                ('{"nodeconfig": ["a"]}', ' has no object for a node: "a"'),
                (
                    '{"nodeconfig": [{"name": "a"}, {"name": "b", "devicesplitCounts": 4}]}',
                    " has the unknown key devicesplitCounts, known are devicecorescaling, devicememoryscaling, devices",
                ),
                (
                    '{"nodeconfig": [{"name": "a", "devicesplitcount": "4"}]}',
                    ': devicesplitcount must be a number, not "4"',
                ),
                ('{"nodeconfig": [{"name": "a", "libcudaloglevel": 1}]}', ": libcudaloglevel must be text, not 1"),
                ('{"nodeconfig": [{"name": "a", "filterdevices": []}]}', ": filterdevices must be an object, not []"),
                (
                    '{"nodeconfig": [{"name": "a", "filterdevices": {"ids": []}}]}',
                    " has the unknown key filterdevices.ids, known are ",
                ),
                (
                    '{"nodeconfig": [{"name": "a", "filterdevices": {"index": 3}}]}',
                    ": filterdevices.index must be a list, not 3",
                ),
                (
                    '{"nodeconfig": [{"name": "a", "filterdevices": {"index": ["0"]}}]}',
                    ': filterdevices.index of node a must be a list of numbers, but has "0"',
                ),
                (
                    '{"nodeconfig": [{"name": "a", "devicesplitcount": -4}]}',
                    ": devicesplitcount of node a must be a whole number of 0 or more, not -4",
                ),
                (
                    '{"nodeconfig": [{"name": "a", "devicesplitcount": 4.5}]}',
                    ": devicesplitcount of node a must be a whole number of 0 or more, not 4.5",
                ),
                *(
                    (f'{{"nodeconfig": [{{"name": "a", "{key}": "{value}"}}]}}', f": {key} of node a must be {allowed}")
                    for key, value, allowed in (
                        ("operatingmode", "MIG", "hami-core, mig, not MIG"),
                        ("migstrategy", "foo", "none, single, mixed, not foo"),
                        ("libcudaloglevel", "9", "0, 1, 3, 4, not 9"),
                    )
                ),
            )
        ),
        ({"devicePlugin": {"libPath": "/opt/vgpu"}}, "must be global.gpuHookPath with /vgpu behind it"),
        ({"prometheus": {"enabled": True}}, "prometheus.serviceAccount.name: say with which service account"),
        (
            {"prometheus": {"rules": {"enabled": True}}, "scheduler": {"metricsBindAddress": ""}},
            "prometheus.rules.enabled: without scheduler.metricsBindAddress there are no metrics",
        ),
        (
            {"prometheus": {"enabled": True}},
            "ownBinding=true that you bind it to the ClusterRole gpuloom-metrics-reader",
        ),
        (
            {"prometheus": {"serviceAccount": {"name": "prometheus"}}},
            "prometheus.serviceAccount.namespace: say in which namespace",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused_with_what_to_do(helm: Helm, values: Any, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        helm.template(with_values(values))


NO_REGISTRY: Any = {"global": {"imageRegistry": ""}}
NO_NODES: Any = {"devicePlugin": {"enabled": False}}


@pytest.mark.chart
@pytest.mark.parametrize(
    ("values", "image"),
    [
        (NO_NODES, "gpuloom/scheduler"),
        ({"scheduler": {"extender": {"image": {"registry": "m.example"}}}}, "gpuloom/node"),
        (
            {
                "scheduler": {"extender": {"image": {"repository": "me/scheduler"}}},
                "devicePlugin": {
                    "image": {"repository": "me/node"},
                    "monitor": {"image": {"repository": "gpuloom/node"}},
                },
            },
            "gpuloom/node",
        ),
    ],
    ids=["scheduler", "device-plugin", "monitor"],
)
def test_images_that_nobody_published_are_not_taken_from_the_registry_where_somebody_else_could(
    helm: Helm, values: Any, image: str
) -> None:
    complaint = f"{image} has no registry, and gpuloom publishes nothing at docker.io: build and push the images"
    with pytest.raises(HelmError, match=re.escape(complaint)):
        helm.template(with_values(values, NO_REGISTRY))


@pytest.mark.chart
def test_docker_hub_is_taken_if_somebody_says_so(helm: Helm) -> None:
    own = {"scheduler": {"extender": {"image": {"repository": "me/scheduler"}}}}
    images = {"devicePlugin": {"image": {"registry": "docker.io"}}}
    objects = helm.template(with_values(own, with_values(images, NO_REGISTRY)))
    assert find_container(objects, "extender")["image"] == "me/scheduler:0.1.0"
    assert find_container(objects, "device-plugin")["image"] == "docker.io/gpuloom/node:0.1.0"


@pytest.mark.chart
def test_an_image_that_no_pod_runs_needs_no_registry(helm: Helm) -> None:
    values = {"scheduler": {"extender": {"image": {"registry": "m.example"}}}, **NO_NODES}
    objects = helm.template(with_values(values, NO_REGISTRY))
    assert find_container(objects, "extender")["image"] == "m.example/gpuloom/scheduler:0.1.0"


@pytest.mark.chart
def test_every_toleration_that_kubernetes_knows_is_taken(helm: Helm) -> None:
    tolerations = [
        {"operator": "Exists"},
        {"key": "gpu", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "", "value": "", "effect": ""},
        {"key": "gpu", "operator": "Equal", "value": "on", "effect": "PreferNoSchedule"},
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
        {"key": "cost", "operator": "Lt", "value": "10"},
        {"key": "cost", "operator": "Gt", "value": "1"},
    ]
    part = {"tolerations": tolerations}
    objects = helm.template(with_values({"scheduler": part, "devicePlugin": part}))
    assert [spec["tolerations"] for spec in list_pod_specs(objects)] == [tolerations] * 3


@pytest.mark.chart
@pytest.mark.parametrize("registry", ["m.example", "localhost:5000", "10.0.0.1/team_a/gpu-images"])
def test_a_registry_may_have_a_port_and_folders(helm: Helm, registry: str) -> None:
    objects = helm.template(with_values({"global": {"imageRegistry": registry}}))
    assert find_container(objects, "extender")["image"].startswith(f"{registry}/gpuloom/scheduler:")


def test_schema_and_defaults_name_the_same_values() -> None:
    leaves = {path for path, _ in list_leaves(read_values(), read_schema())}
    assert set(list_properties(read_schema())) == leaves


def test_the_docs_name_every_value_with_its_default() -> None:
    expected = {path: describe_default(value) for path, value in list_leaves(read_values(), read_schema())}
    expected["devices.nvidia.migProfileAllowlist"] = "nine groups"
    assert dict(ROW.findall(DOCS.read_text())) == expected
