"""What the chart makes of values: it agrees with itself, and with what gpuloom's commands accept."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from real.chart.objects import (
    HAMI,
    HAMI_LIBRARY,
    find,
    find_container,
    list_containers,
    list_managed,
    list_pod_specs,
    read_data,
    with_values,
)

from gpuloom.cli.commands import build_app
from gpuloom.cli.ownvendors import read_own_file
from gpuloom.kube.credentials import SERVICE_ACCOUNT_DIR
from gpuloom.node.settings import InjectionSettings
from gpuloom.scheduler.leadership.rolelabel import ROLE_LABEL
from gpuloom.scheduler.outlook.file import read_workload
from gpuloom.scheduler.outlook.lines import ExpectedPods, read_mix
from gpuloom.vendors.catalog import load_shipped, make_catalog
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.web.protocol import INSTALLATION_LABEL, SERVICE_ANNOTATION, SERVICE_PORT
from gpuloom.wire.keys import NODE_CORDON, NODE_MOVING
from gpuloom.wire.node_config import FilterDevices, NodeConfig, decode_node_config, encode_node_config
from harness.helm import CHART, NAMESPACE, Helm
from harness.installation import MAX_BACKOFF_S
from harness.policies import read_keys

pytestmark = pytest.mark.chart

ONE_REPLICA: dict[str, Any] = {"scheduler": {"leaderElect": False}}
EVERYBODY: dict[str, Any] = {"devices": {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}}
OTHER_NAMES: dict[str, Any] = {"resourceName": "corp.example/gpu", "resourcePriority": ""}
CERT_MANAGER: dict[str, Any] = {"scheduler": {"certManager": {"enabled": True}}}
NO_NODES: dict[str, Any] = {"devicePlugin": {"enabled": False}}
TRY_OUT: dict[str, Any] = {"devicePlugin": {"simulatedCards": "four-l4"}}
DIVIDED: dict[str, Any] = {"devicePlugin": {"divideCards": True, "deviceListStrategy": "cdi-cri"}}
DRIVER_ELSEWHERE: dict[str, Any] = {"devicePlugin": {"nvidiaDriverRoot": "/run/nvidia/driver"}}
ACCOUNT = {"name": "prometheus", "namespace": "monitoring"}
MONITORED: dict[str, Any] = {
    "prometheus": {
        "enabled": True,
        "serviceAccount": ACCOUNT,
        "rules": {"enabled": True},
        "dashboard": {"enabled": True},
    }
}
FROM_HAMI: dict[str, Any] = {
    "global": {"labels": {"team": "ml"}, "imagePullSecrets": ["key"]},
    "scheduler": {
        "overwriteEnv": "false",
        "nodeLabelSelector": {"gpu": "on"},
        "podAnnotations": {"a": "b"},
        "service": {"type": "NodePort"},
        "admissionWebhook": {"whitelistNamespaces": ["istio-system"]},
    },
    "devicePlugin": {
        "disablecorelimit": "true",
        "deviceSplitCount": 4,
        "runtimeClassName": "nvidia",
        "createRuntimeClass": True,
        "nodeConfiguration": {"config": '{"nodeconfig": []}'},
        "service": {"type": "NodePort"},
    },
}
WITH_WORKLOAD: dict[str, Any] = {
    "scheduler": {
        "workload": {"pods": [{"cpuMilli": 500}]},
        "nodeChoice": "scheduler",
        "cpuOnlyPods": {"avoidGpuNodes": True, "namespaces": ["web"]},
    }
}
ACME = Path(__file__).parents[3] / "docs/examples/acme.toml"
POLICY_KINDS = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
ALL = {
    "defaults": {},
    "one-replica": ONE_REPLICA,
    "other-names": OTHER_NAMES,
    "everybody": EVERYBODY,
    "cert-manager": CERT_MANAGER,
    "own-issuer": {"scheduler": {"certManager": {"enabled": True, "issuerRef": {"name": "corp"}}}},
    "no-nodes": NO_NODES,
    "try-out": TRY_OUT,
    "divided": DIVIDED,
    "driver-elsewhere": DRIVER_ELSEWHERE,
    "monitored": MONITORED,
    "from-hami": FROM_HAMI,
    "with-workload": WITH_WORKLOAD,
}


@pytest.fixture(params=list(ALL.values()), ids=list(ALL))
def objects(request: pytest.FixtureRequest, helm: Helm) -> list[Any]:
    """The chart's objects for one of several value sets."""
    return helm.template(with_values(request.param))


def test_every_namespaced_object_is_in_the_release_or_kube_system(objects: list[Any]) -> None:
    without = {"ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration", "RuntimeClass", *POLICY_KINDS}
    places = {one["metadata"].get("namespace") for one in objects if one["kind"] not in without}
    assert places <= {NAMESPACE, "kube-system"}


def test_every_argument_is_one_that_the_command_takes(objects: list[Any]) -> None:
    commands = [one for one in list_containers(objects) if one["name"] in {"extender", "device-plugin", "monitor"}]
    assert commands
    for container in commands:
        name, *flags = container["args"]
        from_environment = ["--node-name=n"] if "NODE_NAME" in {one["name"] for one in container["env"]} else []
        build_app().parse_args([name, *from_environment, *flags], exit_on_error=False)


@pytest.mark.parametrize(
    "values",
    [
        {"devicePlugin": {"migStrategy": "single"}},
        {"devicePlugin": {"migStrategy": "mixed", "deviceListStrategy": "cdi-annotations,cdi-cri"}},
        {"scheduler": {"defaultSchedulerPolicy": {"nodeSchedulerPolicy": "spread"}, "kubeTimeout": 2.5, "kubeQPS": 50}},
        {"scheduler": {"nodeLockExpire": "1h5m", "nodeLockRetryTimeout": "0s"}},
        {"scheduler": {"preemption": {"enabled": True, "budgets": "strict", "mostPlans": 3, "spares": ["a", "b"]}}},
        {"scheduler": {"defragmentation": {"enabled": True, "wait": "1h", "interval": "30s", "mostMoves": 2}}},
        {"scheduler": {"preemption": {"enabled": True, "minAge": "10m"}}},
        {"scheduler": {"nodeLabelSelector": {"gpu": "on", "zone": "a"}}, "legacyMetrics": True},
    ],
)
def test_every_word_that_the_schema_allows_is_one_that_the_command_takes(helm: Helm, values: Any) -> None:
    test_every_argument_is_one_that_the_command_takes(helm.template(with_values(values)))


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ({}, HAMI),
        ({"digest": f"sha256:{'0' * 64}"}, f"{HAMI}@sha256:{'0' * 64}"),
        ({"registry": "corp.example", "tag": "v3"}, "corp.example/projecthami/hami:v3"),
        ({"repository": ""}, "here/gpuloom/node:0.1.0"),
    ],
    ids=["default", "digest", "another", "node image"],
)
def test_the_library_comes_from_hamis_image_unless_another_is_named(helm: Helm, library: Any, expected: str) -> None:
    values = {"global": {"imageRegistry": "here"}, "devicePlugin": {"library": {"image": library}}}
    container = find_container(helm.template(with_values(values)), "library")
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert container["image"] == expected
    assert environment["SOURCE"] == f"/{HAMI_LIBRARY}".rpartition("/")[0]
    # HAMi's image asks for all cards, which this container does not need.
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"


DIGEST, OTHER_DIGEST = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


@pytest.mark.parametrize(
    ("plugin", "monitor", "expected"),
    [
        ({}, {}, "here/gpuloom/node:0.1.0"),
        ({}, {"tag": "v3"}, "here/gpuloom/node:v3"),
        ({}, {"registry": "corp.example"}, "corp.example/gpuloom/node:0.1.0"),
        ({}, {"digest": DIGEST}, f"here/gpuloom/node:0.1.0@{DIGEST}"),
        ({"digest": DIGEST}, {}, f"here/gpuloom/node:0.1.0@{DIGEST}"),
        ({"digest": DIGEST}, {"registry": "corp.example"}, f"corp.example/gpuloom/node:0.1.0@{DIGEST}"),
        ({"digest": DIGEST}, {"tag": "v3"}, "here/gpuloom/node:v3"),
        ({"digest": DIGEST}, {"repository": "watch"}, "here/watch:0.1.0"),
        ({"digest": DIGEST}, {"tag": "v3", "digest": OTHER_DIGEST}, f"here/gpuloom/node:v3@{OTHER_DIGEST}"),
        ({"registry": "a.example", "tag": "v2"}, {"repository": "watch"}, "a.example/watch:v2"),
    ],
)
def test_the_monitors_image_is_the_device_plugins_with_what_it_has_of_its_own(
    helm: Helm, plugin: Any, monitor: Any, expected: str
) -> None:
    values = {"global": {"imageRegistry": "here"}, "devicePlugin": {"image": plugin, "monitor": {"image": monitor}}}
    assert find_container(helm.template(with_values(values)), "monitor")["image"] == expected


def test_every_image_may_be_named_by_a_digest(helm: Helm) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    images = list(find_images(values))
    for number, image in enumerate(images):
        image |= {"repository": f"corp/{number}", "digest": f"sha256:{number:064}"}
    found = {one["image"] for one in list_containers(helm.template(values))}
    assert len(images) == 5
    for image in images:
        assert [one for one in found if f"/{image['repository']}:" in f"/{one}" and one.endswith(f"@{image['digest']}")]


def find_images(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from (value,) if key == "image" else find_images(value)


def test_selectors_find_the_pods_of_their_own_component_alone(objects: list[Any]) -> None:
    templates = [one["spec"]["template"]["metadata"]["labels"] for one in objects if "template" in one.get("spec", {})]
    for one in objects:
        selector = one.get("spec", {}).get("selector")
        if not selector or one["kind"] == "ServiceMonitor":
            continue
        # The replica in charge labels itself.
        wanted = {
            key: value for key, value in selector.get("matchLabels", selector).items() if key != ROLE_LABEL
        }.items()
        assert len([own for own in templates if wanted <= own.items()]) == 1, one["metadata"]["name"]


def test_no_value_changes_the_selectors_of_a_release_which_kubernetes_does_not_let_change(helm: Helm) -> None:
    one, other = (
        {
            found["metadata"]["name"]: found["spec"]["selector"]
            for found in helm.template(with_values({"fullnameOverride": "cards", "nameOverride": name}))
            if found["kind"] in {"Deployment", "DaemonSet"}
        }
        for name in ("", "other")
    )
    assert one == other
    assert len(one) == 3


def test_no_pod_of_gpuloom_goes_through_its_own_webhook(objects: list[Any]) -> None:
    for one in objects:
        if one["kind"] in {"Deployment", "DaemonSet"}:
            assert one["spec"]["template"]["metadata"]["labels"]["hami.io/webhook"] == "ignore"


def test_containers_cannot_gain_rights_or_write_to_their_image(objects: list[Any]) -> None:
    for container in list_containers(objects):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        if not security.get("privileged"):
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]


def test_on_nodes_only_the_metrics_can_be_reached(helm: Helm) -> None:
    objects = helm.template(with_values({}))
    ports = {"-device-plugin": None, "-monitor": [{"ports": [{"port": "metrics"}]}]}
    for name, ingress in ports.items():
        policy = find(objects, "NetworkPolicy", name)["spec"]
        assert (policy.get("ingress"), policy["policyTypes"]) == (ingress, ["Ingress"])
        labels = find(objects, "DaemonSet", name)["spec"]["template"]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert [port["name"] for port in find_container(objects, "monitor")["ports"]] == ["metrics"]
    assert "ports" not in find_container(objects, "device-plugin")


def test_no_pod_calls_the_kernel_freely(objects: list[Any]) -> None:
    for spec in list_pod_specs(objects):
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


TOKENS = {
    "kube-scheduler": "gpuloom-kube-scheduler-token",
    "extender": "gpuloom-scheduler",
    "device-plugin": "gpuloom-device-plugin",
    "monitor": "gpuloom-monitor",
}
"""Whose token each container has: a Secret, or the account of the pod."""


def test_each_container_has_the_token_of_its_own_account_and_no_other(objects: list[Any]) -> None:
    found = {}
    for spec in list_pod_specs(objects):
        assert spec["automountServiceAccountToken"] is False
        volumes = {one["name"]: one for one in spec["volumes"]}
        for container in (*spec.get("initContainers", []), *spec["containers"]):
            for mount in container["volumeMounts"]:
                if mount["mountPath"] == str(SERVICE_ACCOUNT_DIR):
                    volume = volumes[mount["name"]]
                    is_secret = "secret" in volume
                    found[container["name"]] = (
                        volume["secret"]["secretName"] if is_secret else spec["serviceAccountName"]
                    )
    assert found.items() <= TOKENS.items()
    assert {"kube-scheduler", "extender"} <= found.keys()
    assert [one for one in objects if one["kind"] == "ServiceAccount" and one["automountServiceAccountToken"]] == []


def test_gpuloom_and_kube_scheduler_share_no_right_by_a_binding(objects: list[Any]) -> None:
    roles: dict[str, set[str]] = {}
    for one in objects:
        if one["kind"] in {"RoleBinding", "ClusterRoleBinding"}:
            (subject,) = one["subjects"]
            roles.setdefault(subject["name"], set()).add(one["roleRef"]["name"])
    assert roles["gpuloom-scheduler"] <= {"gpuloom-scheduler", "gpuloom-scheduler-rivals", "gpuloom-use-reader"}
    assert {"system:kube-scheduler", "system:volume-scheduler"} < roles["gpuloom-kube-scheduler"]


def test_nothing_uses_the_network_of_its_node(objects: list[Any]) -> None:
    assert [spec for spec in list_pod_specs(objects) if spec.get("hostNetwork")] == []


def test_every_volume_is_mounted_and_every_mount_has_a_volume(objects: list[Any]) -> None:
    for spec in list_pod_specs(objects):
        containers = (*spec.get("initContainers", []), *spec["containers"])
        mounted = {mount["name"] for one in containers for mount in one["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"] or [] if volume}


def test_roles_name_what_they_allow(objects: list[Any]) -> None:
    for one in objects:
        for rule in one.get("rules", []) if one["kind"] in {"Role", "ClusterRole"} else []:
            what = (rule["nonResourceURLs"],) if "nonResourceURLs" in rule else (rule["apiGroups"], rule["resources"])
            assert "*" not in "".join(chain(rule["verbs"], *what))


def test_kube_scheduler_leaves_to_the_extender_what_the_device_configuration_names(objects: list[Any]) -> None:
    text = find(objects, "ConfigMap", "-device")["data"]["device-config.yaml"].encode()
    on = {word.removeprefix("--").removesuffix("=true") for word in find_container(objects, "extender")["args"]}
    named = set()
    for profile in make_catalog(apply_device_config(load_shipped(), text, "device-config.yaml"), on):
        # Where cards are counted by their cores, the vendor's plugin offers cores and memory to the kubelet.
        named |= set(profile.resources.all) if profile.cards.unit == "count" else {profile.resources.count}
    assert sorted(list_managed(objects)) == sorted(named)


def test_by_default_the_vendors_are_those_of_hami(helm: Helm) -> None:
    managed = list_managed(helm.template(with_values({})))
    assert len(managed) == len(set(managed)) == 28
    assert {"cambricon.com/vmlu", "mthreads.com/vgpu", "enflame.com/gcu", "kunlunxin.com/xpu"} <= set(managed)
    assert not {"cambricon.com/mlu.smlu.vcore", "mthreads.com/sgpu-core"} & set(managed)
    assert not [name for name in managed if name.startswith(("huawei.com/", "iluvatar.ai/"))]


def test_chips_that_are_switched_on_come_with_their_resources_and_their_flag(helm: Helm) -> None:
    objects = helm.template(with_values({"devices": {"ascend": {"enabled": True, "hamiVnpuCore": True}}}))
    assert {"huawei.com/Ascend910B3", "huawei.com/Ascend910B3-memory"} <= set(list_managed(objects))
    assert {"--enable-ascend=true", "--enable-iluvatar=false"} <= set(find_container(objects, "extender")["args"])
    assert read_data(objects, "-device", "device-config.yaml")["vnpus"]["hamiVnpuCore"] is True


def test_a_vendor_that_is_off_is_neither_configured_nor_managed(helm: Helm) -> None:
    objects = helm.template(with_values({"devices": {"metax": {"enabled": False}}}))
    assert "metax" not in read_data(objects, "-device", "device-config.yaml")
    assert not [name for name in list_managed(objects) if name.startswith("metax")]


def test_a_resource_that_is_renamed_is_renamed_everywhere(helm: Helm) -> None:
    objects = helm.template(with_values({"enflameResourceNameDRSGCU": "corp.example/gcu", "mluResourceName": ""}))
    managed = list_managed(objects)
    assert "corp.example/gcu" in managed
    assert not {"enflame.com/drs-gcu", "cambricon.com/vmlu"} & set(managed)


def test_where_nvidias_cards_are_not_offered_there_is_no_device_plugin_of_theirs(helm: Helm) -> None:
    objects = helm.template(with_values({"resourceName": ""}, with_values(NO_NODES)))
    assert "nvidia.com/gpu" not in list_managed(objects)
    assert "amd.com/gpu" in list_managed(objects)


@pytest.mark.parametrize("container", ["extender", "device-plugin"])
def test_vendors_of_ones_own_are_given_to_scheduler_and_device_plugin(helm: Helm, container: str) -> None:
    own = {"vendors": {"profiles": {"corp.toml": 'word = "Corp"'}, "managedResources": ["corp.example/npu"]}}
    objects = helm.template(with_values(own))
    assert find(objects, "ConfigMap", "-vendors")["data"] == {"corp.toml": 'word = "Corp"'}
    reader = find_container(objects, container)
    (mount,) = (one for one in reader["volumeMounts"] if one["name"] == "vendors")
    assert f"--vendor-dir={mount['mountPath']}" in reader["args"]
    assert "corp.example/npu" in list_managed(objects)


def test_the_extender_is_reached_in_the_pod_only(helm: Helm) -> None:
    objects = helm.template(with_values({}))
    (extender,) = read_data(objects, "-scheduler", "config.yaml")["extenders"]
    assert (extender["urlPrefix"], extender["preemptVerb"]) == ("http://127.0.0.1:9398", "preempt")
    assert "--extender-bind=127.0.0.1:9398" in find_container(objects, "extender")["args"]
    for kind in ("Service", "NetworkPolicy"):
        assert "9398" not in json.dumps(find(objects, kind, "-scheduler"))


def test_a_refused_pod_is_left_alone_as_long_as_in_the_tests_of_the_scheduler(helm: Helm) -> None:
    settings = read_data(helm.template(with_values({})), "-scheduler", "config.yaml")
    assert settings["podMaxBackoffSeconds"] == MAX_BACKOFF_S


def test_a_refused_pod_is_left_alone_as_long_as_the_values_say(helm: Helm) -> None:
    objects = helm.template(with_values({"scheduler": {"kubeScheduler": {"podMaxBackoffSeconds": 10}}}))
    assert read_data(objects, "-scheduler", "config.yaml")["podMaxBackoffSeconds"] == 10


@pytest.mark.parametrize(
    ("values", "verb", "weight"),
    [({}, None, 1), ({"nodeChoice": "scheduler"}, "prioritize", 1),
     ({"nodeChoice": "scheduler", "nodeChoiceWeight": 7}, "prioritize", 7)],
)  # fmt: skip
def test_kube_scheduler_asks_for_scores_where_it_chooses(
    helm: Helm, values: Any, verb: str | None, weight: int
) -> None:
    objects = helm.template(with_values({"scheduler": values}))
    (extender,) = read_data(objects, "-scheduler", "config.yaml")["extenders"]
    assert (extender.get("prioritizeVerb"), extender["weight"]) == (verb, weight)
    assert f"--node-choice={values.get('nodeChoice', 'extender')}" in find_container(objects, "extender")["args"]


WORKLOAD = [
    {"count": 60, "vendor": "NVIDIA", "cards": 1, "cpuMilli": 4000, "memoryPercent": 50, "models": ["a100"]},
    {"count": 20, "cpuMilli": 500},
]


def test_a_workload_of_values_is_a_file_that_the_scheduler_reads(helm: Helm, tmp_path: Path) -> None:
    objects = helm.template(with_values({"scheduler": {"workload": {"pods": WORKLOAD}}}))
    (tmp_path / "w").write_text(find(objects, "ConfigMap", "-workload")["data"]["workload.yaml"])
    assert read_workload(tmp_path / "w").counts == read_mix(msgspec.convert(WORKLOAD, list[ExpectedPods])).counts
    assert find_workload(objects) == ("gpuloom-scheduler-workload", "--workload-file=/workload/workload.yaml")


def test_a_workload_may_lie_in_a_config_map_of_ones_own(helm: Helm) -> None:
    objects = helm.template(with_values({"scheduler": {"workload": {"configMap": "mine", "key": "jobs.json"}}}))
    assert [one for one in objects if one["metadata"]["name"].endswith("-workload")] == []
    assert find_workload(objects) == ("mine", "--workload-file=/workload/jobs.json")


def test_without_a_workload_it_is_learned(helm: Helm) -> None:
    assert "workload" not in json.dumps(helm.template(with_values({})))


def find_workload(objects: list[Any]) -> tuple[str, str]:
    """Return the ConfigMap where the extender finds its workload, and the flag that names the file."""
    (spec,) = (spec for spec in list_pod_specs(objects) if "extender" in {one["name"] for one in spec["containers"]})
    (volume,) = (one for one in spec["volumes"] if one["name"] == "workload")
    extender = find_container(objects, "extender")
    (mount,) = (one for one in extender["volumeMounts"] if one["name"] == "workload")
    (flag,) = (one for one in extender["args"] if one.startswith("--workload-file="))
    assert flag.startswith(f"--workload-file={mount['mountPath']}/")
    return volume["configMap"]["name"], flag


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ({}, []),
        ({"avoidGpuNodes": True}, ["--cpu-pods-avoid=gpu=on"]),
        ({"avoidGpuNodes": True, "nodeLabels": {"pool": "a", "x": "b"}, "namespaces": ["web", "db"]},
         ["--cpu-pods-avoid=pool=a,x=b", "--cpu-pods-namespaces=web,db"]),
    ],
)  # fmt: skip
def test_pods_without_cards_are_asked_to_leave_the_nodes_of_device_plugins(
    helm: Helm, values: Any, flags: list[str]
) -> None:
    objects = helm.template(with_values({"scheduler": {"cpuOnlyPods": values}}))
    assert [one for one in find_container(objects, "extender")["args"] if one.startswith("--cpu-pods")] == flags
    # Pods without cards reach the webhook as all others do.
    (webhook,) = find(objects, "MutatingWebhookConfiguration")["webhooks"]
    for selector in ("namespaceSelector", "objectSelector"):
        assert [one["key"] for one in webhook[selector]["matchExpressions"]] == ["hami.io/webhook"]


def test_two_replicas_follow_the_lease_of_kube_scheduler(helm: Helm) -> None:
    objects = helm.template(with_values({}))
    lease = read_data(objects, "-scheduler", "config.yaml")["leaderElection"]
    assert lease == {"leaderElect": True, "resourceName": "hami-scheduler", "resourceNamespace": NAMESPACE}
    arguments = find_container(objects, "extender")["args"]
    assert f"--leader-elect-resource-name={lease['resourceName']}" in arguments
    assert f"--leader-elect-resource-namespace={lease['resourceNamespace']}" in arguments
    for account, verbs in (("gpuloom-scheduler", ["list", "watch"]), ("gpuloom-kube-scheduler", ["get", "update"])):
        rules = find(objects, "Role", account)["rules"]
        (named,) = (one for one in rules if one["resources"] == ["leases"] and "resourceNames" in one)
        assert (named["resourceNames"], named["verbs"]) == ([lease["resourceName"]], verbs)
    assert find(objects, "Deployment")["spec"]["replicas"] == 2
    assert find(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == 1


def test_without_a_lease_there_is_one_replica_and_no_budget_that_would_keep_its_node(helm: Helm) -> None:
    objects = helm.template(with_values(ONE_REPLICA))
    deployment = find(objects, "Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert "PodDisruptionBudget" not in {one["kind"] for one in objects}
    assert "leader-elect" not in json.dumps(find_container(objects, "extender")["args"])


def test_with_a_lease_the_strategy_is_said_in_full_so_that_whoever_said_it_can_take_it_back(helm: Helm) -> None:
    strategy = find(helm.template(with_values({})), "Deployment")["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def test_without_a_lease_nobody_has_rights_on_leases(helm: Helm) -> None:
    objects = helm.template(with_values(ONE_REPLICA))
    rules = [rule for one in objects if one["kind"] == "Role" for rule in one["rules"]]
    assert "leases" not in {name for rule in rules for name in rule["resources"]}


def test_a_role_that_is_left_without_rights_has_an_empty_list_of_rules(helm: Helm) -> None:
    objects = helm.template(with_values(CERT_MANAGER, with_values(ONE_REPLICA)))
    assert find(objects, "Role", "gpuloom-scheduler")["rules"] == []


@pytest.mark.parametrize(
    ("version", "api"),
    [
        ("v1.24.17", "kubescheduler.config.k8s.io/v1beta2"),
        ("v1.25.0", "kubescheduler.config.k8s.io/v1"),
        ("v1.34.4-gke.100", "kubescheduler.config.k8s.io/v1"),
    ],
)
def test_kube_scheduler_is_configured_in_the_words_of_the_clusters_version(helm: Helm, version: str, api: str) -> None:
    objects = helm.template(with_values({}), version=version)
    assert read_data(objects, "-scheduler", "config.yaml")["apiVersion"] == api
    image = find_container(objects, "kube-scheduler")["image"]
    assert image == f"registry.k8s.io/kube-scheduler:{version.partition('-')[0]}"


def test_the_webhook_is_told_its_authority_by_whoever_serves_the_certificate(helm: Helm) -> None:
    objects = helm.template(with_values({}))
    configuration = find(objects, "MutatingWebhookConfiguration")
    (webhook,) = configuration["webhooks"]
    service = find(objects, "Service", "-scheduler")
    assert webhook["clientConfig"] == {
        "service": {"name": service["metadata"]["name"], "namespace": NAMESPACE, "path": "/webhook", "port": 443}
    }
    assert 443 in [port["port"] for port in service["spec"]["ports"]]


def test_the_pages_are_those_of_the_replica_in_charge(helm: Helm) -> None:
    service = find(helm.template(with_values({})), "Service", "-web")
    assert service["spec"]["selector"][ROLE_LABEL] == "leader"
    assert [port["name"] for port in service["spec"]["ports"]] == [SERVICE_PORT]


AT_A_URL: dict[str, Any] = {"scheduler": {"admissionWebhook": {"customURL": {"enabled": True, "host": "gpu.example"}}}}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"nameOverride": "cards"},
        {"fullnameOverride": "cards"},
        {"global": {"annotations": {"a": "b"}}},
        AT_A_URL,
        CERT_MANAGER,
    ],
    ids=json.dumps,
)
def test_the_installation_names_the_service_of_its_pages_where_no_tenant_can(
    helm: Helm, values: dict[str, Any]
) -> None:
    """trust T-01."""
    objects = helm.template(with_values(values))
    shown = find(objects, "MutatingWebhookConfiguration")["metadata"]
    service = find(objects, "Service", "-web")
    assert shown["labels"][INSTALLATION_LABEL] == "gpuloom"
    assert shown["annotations"][SERVICE_ANNOTATION] == f"{NAMESPACE}/{service['metadata']['name']}"
    assert [one["kind"] for one in objects if INSTALLATION_LABEL in one["metadata"].get("labels", {})] == [
        "MutatingWebhookConfiguration"
    ]


def test_without_pages_the_installation_names_no_service(helm: Helm) -> None:
    objects = helm.template(with_values({"scheduler": {"dashboard": {"enabled": False}}}))
    assert SERVICE_ANNOTATION not in find(objects, "MutatingWebhookConfiguration")["metadata"].get("annotations", {})
    assert not [one for one in objects if one["metadata"]["name"].endswith(("-web", "-viewer"))]


@pytest.mark.parametrize("values", [{}, CERT_MANAGER], ids=["self-made", "cert-manager"])
def test_the_certificate_is_the_pages_too(helm: Helm, values: dict[str, Any]) -> None:
    objects = helm.template(with_values(values))
    host = f"{find(objects, 'Service', '-web')['metadata']['name']}.{NAMESPACE}.svc"
    if values:
        hosts = find(objects, "Certificate", "-tls")["spec"]["dnsNames"]
    else:
        arguments = find_container(objects, "extender")["args"]
        (hosts,) = (one.partition("=")[2].split(",") for one in arguments if one.startswith("--tls-hosts="))
    assert hosts[2:] == [host, f"{host}.cluster.local"]


def test_viewers_may_use_the_way_to_the_pages_and_nothing_else(helm: Helm) -> None:
    subjects = [{"kind": "Group", "name": "gpu-users", "apiGroup": "rbac.authorization.k8s.io"}]
    objects = helm.template(with_values({"scheduler": {"dashboard": {"viewers": subjects}}}))
    viewer = [one for one in objects if one["metadata"]["name"] == "gpuloom-viewer"]
    rules = {one["kind"]: one["rules"] for one in viewer if "rules" in one}
    assert rules == {
        "ClusterRole": [
            {
                "apiGroups": ["admissionregistration.k8s.io"],
                "resources": ["mutatingwebhookconfigurations"],
                "verbs": ["list"],
            }
        ],
        "Role": [
            {
                "apiGroups": [""],
                "resources": ["services/proxy"],
                "resourceNames": ["https:gpuloom-scheduler-web:web"],
                "verbs": ["get", "create"],
            }
        ],
    }
    bindings = [one for one in viewer if "subjects" in one]
    assert [(one["kind"], one["subjects"]) for one in bindings] == [
        ("ClusterRoleBinding", subjects),
        ("RoleBinding", subjects),
    ]


def test_nobody_is_a_viewer_unless_named(helm: Helm) -> None:
    objects = helm.template(with_values({}))
    viewer = [one for one in objects if one["metadata"]["name"] == "gpuloom-viewer"]
    assert sorted(one["kind"] for one in viewer) == ["ClusterRole", "Role"]


def test_the_webhook_leaves_alone_what_it_is_told_to(helm: Helm) -> None:
    (webhook,) = find(helm.template(with_values(FROM_HAMI)), "MutatingWebhookConfiguration")["webhooks"]
    unless_ignored = {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["istio-system"]}
    assert webhook["namespaceSelector"] == {"matchExpressions": [unless_ignored, elsewhere]}
    assert webhook["objectSelector"] == {"matchExpressions": [unless_ignored]}


def test_the_scheduler_makes_a_certificate_for_its_service_and_tells_the_webhook(helm: Helm) -> None:
    objects = helm.template(with_values({}))
    arguments = find_container(objects, "extender")["args"]
    service, secret = find(objects, "Service", "-scheduler"), find(objects, "Secret", "-tls")
    webhook = find(objects, "MutatingWebhookConfiguration")
    host = f"{service['metadata']['name']}.{NAMESPACE}.svc"
    assert [one for one in arguments if one.startswith(f"--tls-hosts={host},{host}.cluster.local")]
    assert f"--tls-self-manage={secret['metadata']['name']}" in arguments
    assert f"--tls-webhook={webhook['metadata']['name']}" in arguments
    assert "data" not in secret
    assert "caBundle" not in webhook["webhooks"][0]["clientConfig"]


def test_a_webhook_at_an_address_has_a_certificate_for_it(helm: Helm) -> None:
    address: dict[str, Any] = {"scheduler": {"admissionWebhook": {"customURL": {"enabled": True, "host": "192.0.2.1"}}}}
    objects = helm.template(with_values(address))
    (webhook,) = find(objects, "MutatingWebhookConfiguration")["webhooks"]
    assert webhook["clientConfig"] == {"url": "https://192.0.2.1:31998/webhook"}
    assert any(one.endswith(",192.0.2.1") for one in find_container(objects, "extender")["args"])
    certificate = find(helm.template(with_values(CERT_MANAGER, with_values(address))), "Certificate", "-tls")
    assert certificate["spec"]["ipAddresses"] == ["192.0.2.1"]


def test_cert_manager_writes_the_secret_that_the_scheduler_reads(helm: Helm) -> None:
    objects = helm.template(with_values(CERT_MANAGER))
    certificate = find(objects, "Certificate", "-tls")
    volumes = find(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    (volume,) = (one for one in volumes if one["name"] == "tls")
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    annotations = find(objects, "MutatingWebhookConfiguration")["metadata"]["annotations"]
    assert annotations["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/{certificate['metadata']['name']}"
    service = find(objects, "Service", "-scheduler")["metadata"]["name"]
    assert f"{service}.{NAMESPACE}.svc" in certificate["spec"]["dnsNames"]


def test_cert_manager_renews_the_certificate_under_an_authority_that_stays(helm: Helm) -> None:
    objects = helm.template(with_values(CERT_MANAGER))
    issuers = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "Issuer"}
    certificate, authority = find(objects, "Certificate", "-tls"), find(objects, "Certificate", "-authority")
    assert issuers[certificate["spec"]["issuerRef"]["name"]] == {"ca": {"secretName": authority["spec"]["secretName"]}}
    assert issuers[authority["spec"]["issuerRef"]["name"]] == {"selfSigned": {}}
    assert authority["spec"]["isCA"]
    assert authority["spec"]["duration"] == "87600h"


OWN_ISSUER: dict[str, Any] = with_values({"scheduler": {"certManager": {"issuerRef": {"name": "corp"}}}}, CERT_MANAGER)


@pytest.mark.parametrize("said", [{}, {"kind": "ClusterIssuer"}, {"kind": "VaultIssuer", "group": "corp.example"}])
def test_cert_manager_asks_the_issuer_that_is_named_and_the_chart_makes_none(helm: Helm, said: dict[str, str]) -> None:
    values = with_values({"scheduler": {"certManager": {"issuerRef": said}}}, OWN_ISSUER)
    objects = helm.template(with_values(values))
    own = find(helm.template(with_values(CERT_MANAGER)), "Certificate", "-cert-manager-tls")
    assert [one["metadata"]["name"] for one in objects if one["kind"] == "Issuer"] == []
    certificate = find(objects, "Certificate")
    assert certificate["spec"]["issuerRef"] == {
        "name": "corp",
        "kind": "Issuer",
        "group": "cert-manager.io",
        **said,
    }
    assert {**certificate, "spec": {**certificate["spec"], "issuerRef": own["spec"]["issuerRef"]}} == own
    annotations = find(objects, "MutatingWebhookConfiguration")["metadata"]["annotations"]
    assert annotations["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/{certificate['metadata']['name']}"


def test_values_of_a_release_that_knew_no_issuers_name_none(helm: Helm) -> None:
    reused = with_values({"scheduler": {"certManager": {"issuerRef": None}}}, CERT_MANAGER)
    assert helm.template(reused) == helm.template(with_values(CERT_MANAGER))


@pytest.mark.parametrize("spelt", [str, str.upper], ids=["as written", "capitals"])
def test_every_key_of_a_node_configuration_that_nodes_read_is_taken(helm: Helm, spelt: Callable[[str], str]) -> None:
    full = NodeConfig(
        name="n1",
        operating_mode="mig",
        device_memory_scaling=1.5,
        device_split_count=4,
        device_core_scaling=2,
        mig_strategy="none",
        pre_configured_device_memory_mib=8192,
        lib_cuda_log_level="3",
        enable_numa_topology=True,
        filter_devices=FilterDevices(uuids=("GPU-1",), indexes=(3,)),
        enable_preferred_allocation=True,
    )
    entries = json.loads(encode_node_config(full, NodeConfig(name="n2")))["nodeconfig"]
    assert [key for key, value in entries[0].items() if not value] == []
    told = [{spelt(key): value for key, value in entry.items()} | {spelt("migstrategy"): None} for entry in entries]
    values = {"devicePlugin": {"nodeConfiguration": {"config": json.dumps({spelt("nodeconfig"): told})}}}
    config = find(helm.template(with_values(values)), "ConfigMap", "-device-plugin")["data"]["config.json"]
    assert decode_node_config(config.encode(), "n1") == msgspec.structs.replace(full, mig_strategy="")


def test_values_of_hami_keep_their_meaning(helm: Helm) -> None:
    objects = helm.template(with_values(FROM_HAMI))
    section = read_data(objects, "-device", "device-config.yaml")["nvidia"]
    assert (section["deviceSplitCount"], section["disableCoreLimit"], section["overwriteEnv"]) == (4, True, False)
    assert section["runtimeClassName"] == find(objects, "RuntimeClass")["metadata"]["name"] == "nvidia"
    assert "--node-label-selector=gpu=on" in find_container(objects, "extender")["args"]
    template = find(objects, "Deployment")["spec"]["template"]
    assert template["metadata"]["annotations"]["a"] == "b"
    assert template["spec"]["imagePullSecrets"] == [{"name": "key"}]
    assert {one["metadata"]["labels"]["team"] for one in objects} == {"ml"}
    ports = {port["name"]: port.get("nodePort") for port in find(objects, "Service", "-scheduler")["spec"]["ports"]}
    assert ports == {"https": 31998, "metrics": 31993}
    assert find(objects, "ConfigMap", "-device-plugin")["data"]["config.json"].strip() == '{"nodeconfig": []}'


@pytest.mark.parametrize(
    ("policy", "told"), [("topology-aware", ["true"]), ("spread,topology-aware", ["true"]), ("spread", [])]
)
def test_nodes_tell_how_cards_are_linked_where_the_policy_for_cards_asks_as_with_hami(
    helm: Helm, policy: str, told: list[str]
) -> None:
    objects = helm.template(with_values({"scheduler": {"defaultSchedulerPolicy": {"gpuSchedulerPolicy": policy}}}))
    environment = find_container(objects, "device-plugin")["env"]
    assert [one["value"] for one in environment if one["name"] == "ENABLE_TOPOLOGY_SCORE"] == told


UNSAID_BY_HAMI: dict[str, Any] = {
    "scheduler": {
        "nodeLockRetryTimeout": "",
        "kubeScheduler": {"extraArgs": ["--policy-config-file=/config/config.json", "-v=4"]},
        "extender": {"extraArgs": ["--debug", "-v=4"]},
    },
    "devicePlugin": {
        "gdrcopyEnabled": None,
        "gdsEnabled": None,
        "mofedEnabled": None,
        "extraArgs": ["-v=4"],
        "monitor": {"extraArgs": ["-v=4"]},
    },
}
"""As HAMi's values have it: null and empty for what is not said, and flags of other programs."""


def test_what_hami_leaves_unsaid_is_as_if_nobody_had_said_it(helm: Helm) -> None:
    objects = helm.template(with_values(UNSAID_BY_HAMI))
    plain = helm.template(with_values({}))
    for name in ("device-plugin", "monitor"):
        assert find_container(objects, name)["args"] == find_container(plain, name)["args"]
    without = [one for one in find_container(plain, "extender")["args"] if "node-lock-retry" not in one]
    assert find_container(objects, "extender")["args"] == [*without, "--debug"]


def test_kube_scheduler_is_not_given_the_flag_that_it_lost(helm: Helm) -> None:
    command = find_container(helm.template(with_values(UNSAID_BY_HAMI)), "kube-scheduler")["command"]
    assert command == ["kube-scheduler", "--config=/config/config.yaml", "-v=4"]


@pytest.mark.parametrize("form", [["-v=4"], ["--v=4"], ["-v", "4"], ["--v", "4"], ["-v 4"]], ids=" ".join)
def test_no_form_of_verbosity_reaches_a_program_that_has_none(helm: Helm, form: list[str]) -> None:
    added = ["--register-format=csv9", *form, "--vendor=x", "-vendor"]
    objects = helm.template(with_values({"devicePlugin": {"extraArgs": added}}))
    assert find_container(objects, "device-plugin")["args"][-3:] == [added[0], *added[-2:]]


@pytest.mark.parametrize(
    ("value", "text"),
    [(123456789, "123456789"), (1e6, "1000000"), (0.5, "0.5"), (True, "true"), ("1e+06", "1e+06"), ("007", "007")],
)
def test_a_variable_is_what_the_values_say_digit_by_digit(helm: Helm, value: Any, text: str) -> None:
    environment = {"extraEnvs": {"ID": value}}
    objects = helm.template(with_values({"devicePlugin": {**environment, "monitor": environment}}))
    for name in ("device-plugin", "monitor"):
        (found,) = (one["value"] for one in find_container(objects, name)["env"] if one["name"] == "ID")
        assert found == text


def test_variables_may_stand_as_in_pods_which_is_how_hamis_chart_takes_them(helm: Helm) -> None:
    from_node = {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}
    told = [{"name": "DP_DISABLE_HEALTHCHECKS", "value": "79"}, from_node]
    environment = {"extraEnvs": told}
    objects = helm.template(with_values({"devicePlugin": {**environment, "monitor": environment}}))
    for name in ("device-plugin", "monitor"):
        assert find_container(objects, name)["env"][-2:] == told


MANY = 12345678
LARGE: dict[str, Any] = {
    "scheduler": {
        "kubeQPS": MANY,
        "kubeBurst": MANY,
        "kubeTimeout": MANY,
        "extenderHTTPTimeout": MANY,
        "replicas": MANY * 10,
        "preemption": {"enabled": True, "mostPlans": MANY},
        "defragmentation": {"enabled": True, "mostMoves": MANY},
        "kubeScheduler": {"podMaxBackoffSeconds": MANY},
        "podDisruptionBudget": {"minAvailable": MANY},
    },
    "devicePlugin": {"preConfiguredDeviceMemory": MANY, "deviceMemoryScaling": MANY},
    "devices": {"nvidia": {"defaultMemory": MANY, "defaultGPUNum": MANY, "memoryFactor": MANY}},
}


def test_no_large_number_is_written_with_an_exponent(helm: Helm) -> None:
    text = json.dumps([one for one in helm.template(with_values(LARGE)) if one["kind"] != "ValidatingAdmissionPolicy"])
    assert re.findall(r"\d+(?:\.\d+)?e\+\d+", text) == []
    assert text.count(str(MANY)) == 14


def test_a_list_that_is_taken_away_with_null_is_empty(helm: Helm) -> None:
    none: dict[str, Any] = {
        "global": {"imagePullSecrets": None},
        "vendors": {"managedResources": None, "ownedAnnotations": None, "nodeAnnotations": None},
        "scheduler": {"admissionPolicy": {"accounts": None}, "extender": {"image": {"pullSecrets": None}}},
        "policies": {
            "requests": {"schedulers": None, "namespaces": None},
            "environment": {"names": None},
            "deletions": {"accounts": None, "namespaces": None},
        },
    }
    assert helm.template(with_values(none)) == helm.template(with_values({}))


UNSAID: dict[str, Any] = {
    "global": {"annotations": None, "labels": None},
    "scheduler": {
        "rivals": {"leaseNames": None},
        "service": {"annotations": None, "labels": None},
        "podAnnotations": None,
    },
    "devicePlugin": {"migStrategy": None, "service": {"annotations": None, "labels": None}, "podAnnotations": None},
}


def test_a_value_that_is_taken_away_with_null_is_as_nobody_had_said_it(helm: Helm) -> None:
    assert helm.template(with_values(UNSAID)) == helm.template(with_values({}))


def test_no_lease_is_a_rivals_where_the_list_is_empty(helm: Helm) -> None:
    objects = helm.template(with_values({"scheduler": {"rivals": {"leaseNames": []}}}))
    assert "--rival-lease-names=" in find_container(objects, "extender")["args"]


NUMBERS: dict[str, Any] = {
    "nameOverride": "7",
    "schedulerName": "123",
    "global": {"imagePullSecrets": ["42"]},
    "scheduler": {
        "priorityClassName": "1",
        "workload": {"configMap": "2"},
        "admissionWebhook": {"clientCA": {"configMap": "3"}},
    },
    "devicePlugin": {
        "runtimeClassName": "4",
        "createRuntimeClass": True,
        "priorityClassName": "5",
        "nodeConfiguration": {"externalConfigName": "6"},
        "extraEnvs": {"ON": "1"},
    },
    "prometheus": {"enabled": True, "serviceAccount": {"name": "8", "namespace": "9"}},
}
NAMES = {"name", "namespace", "schedulerName", "resourceName", "resourceNamespace", "secretName", "resourceNames"}
NAMES |= {"runtimeClassName", "priorityClassName", "app.kubernetes.io/instance", INSTALLATION_LABEL}


def list_names(value: Any, key: str = "") -> Iterator[Any]:
    """Give whatever stands where a name must."""
    if isinstance(value, dict):
        for below, one in value.items():
            yield from list_names(one, below)
    elif isinstance(value, list):
        for one in value:
            yield from list_names(one, key)
    elif key in NAMES:
        yield value


def test_names_that_yaml_reads_as_numbers_are_names(helm: Helm) -> None:
    objects = helm.template(with_values(NUMBERS), release="2024", namespace="123")
    found = [*list_names(objects), *list_names(read_data(objects, "-scheduler", "config.yaml"))]
    assert [one for one in found if not isinstance(one, str)] == []
    assert {"123", "2024", *"12345689", "42", "ON"} <= set(found)


@pytest.mark.parametrize(
    ("release", "values", "beginning"),
    [
        ("gpuloom", {}, "gpuloom"),
        ("gpu.loom", {}, "gpu-loom-gpuloom"),
        ("my.gpuloom", {}, "my-gpuloom"),
        ("2024", {}, "gpuloom-2024-gpuloom"),
        ("a", {"fullnameOverride": "my.cards"}, "my-cards"),
        ("a", {"nameOverride": "b.c"}, "a-b-c"),
    ],
)
def test_names_of_services_begin_with_a_letter_and_have_no_dot(
    helm: Helm, release: str, values: Any, beginning: str
) -> None:
    objects = helm.template(with_values(values), release=release)
    names = {one["metadata"]["name"] for one in objects if one["kind"] == "Service"}
    assert names == {f"{beginning}-{part}" for part in ("scheduler", "scheduler-web", "monitor")}


TWICE: dict[str, str] = {
    "app.kubernetes.io/component": "other",
    "app.kubernetes.io/managed-by": "other",
    "hami.io/webhook": "other",
    INSTALLATION_LABEL: "other",
    "team": "ml",
}


def test_labels_of_all_objects_replace_none_that_the_chart_needs(helm: Helm) -> None:
    plain = helm.template(with_values(MONITORED))
    objects = helm.template(with_values({**MONITORED, "global": {"labels": TWICE}}))
    for one, before in zip(objects, plain, strict=True):
        assert one["metadata"]["labels"] == {**TWICE, **before["metadata"]["labels"]}
        if "template" in one.get("spec", {}):
            labels = before["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["template"]["metadata"]["labels"] == {**TWICE, **labels}


def test_no_annotation_keeps_pods_from_starting_anew_when_their_configuration_changes(helm: Helm) -> None:
    pinned = {"checksum/config": "x", "checksum/cards": "x"}
    values = {"scheduler": {"podAnnotations": pinned}, "devicePlugin": {"podAnnotations": pinned}}
    plain = helm.template(with_values({}))
    for one, before in zip(helm.template(with_values(values)), plain, strict=True):
        if "template" in one.get("spec", {}):
            own = before["spec"]["template"]["metadata"]["annotations"]
            assert one["spec"]["template"]["metadata"]["annotations"] == {**pinned, **own}


def test_of_one_key_the_chart_counts_then_the_object_then_everybody(helm: Helm) -> None:
    own = {"labels": {"app.kubernetes.io/name": "mine", "team": "own"}}
    values = {
        "global": {"labels": {"team": "ml"}},
        "scheduler": {"service": own},
        "devicePlugin": {"service": own},
        "prometheus": {
            "enabled": True,
            "serviceAccount": ACCOUNT,
            "rules": {"enabled": True, **own},
            "dashboard": {"enabled": True, **own},
            **own,
        },
    }
    objects = helm.template(with_values(values))
    found = [
        one["metadata"]["labels"]
        for one in objects
        if one["kind"] in {"Service", "ServiceMonitor", "PrometheusRule"}
        or one["metadata"]["name"].endswith("-dashboard")
        if not one["metadata"]["name"].endswith("-web")
    ]
    assert len(found) == 6
    assert {(one["app.kubernetes.io/name"], one["team"]) for one in found} == {("gpuloom", "own")}


@pytest.mark.parametrize("labels", [None, {"grafana_dashboard": None}], ids=["all", "one"])
def test_the_label_of_the_dashboard_may_be_taken_away(helm: Helm, labels: Any) -> None:
    told = {"prometheus": {"dashboard": {"enabled": True, "labels": labels}}}
    assert (
        "grafana_dashboard"
        not in find(helm.template(with_values(told)), "ConfigMap", "dashboard")["metadata"]["labels"]
    )


def test_what_prometheus_and_grafana_read_has_the_annotations_of_every_object(helm: Helm) -> None:
    objects = helm.template(with_values(MONITORED | {"global": {"annotations": {"corp.example/owner": "ml"}}}))
    kinds = {one["kind"] for one in objects if "corp.example/owner" in one["metadata"].get("annotations", {})}
    assert {"ServiceMonitor", "PrometheusRule", "ConfigMap"} <= kinds


def test_a_device_configuration_names_the_resources_of_the_monitor_too(helm: Helm) -> None:
    content = "nvidia: {resourceCountName: corp.example/gpu, resourcePriorityName: corp.example/priority}"
    monitor = find_container(helm.template(with_values({"device-config": {"content": content}})), "monitor")
    assert {"--resource-name=corp.example/gpu", "--priority-name=corp.example/priority"} <= {*monitor["args"]}


@pytest.mark.parametrize(("version", "policy"), [("v1.25.16", None), ("v1.26.0", "AlwaysAllow"), ("", "AlwaysAllow")])
def test_schedulers_that_are_not_ready_do_not_keep_a_node_from_being_drained_where_a_budget_can_say_so(
    helm: Helm, version: str, policy: str | None
) -> None:
    budget = find(helm.template(with_values({}), version=version), "PodDisruptionBudget")
    assert budget["spec"].get("unhealthyPodEvictionPolicy") == policy


def test_only_dividing_cards_takes_a_privileged_plugin(helm: Helm) -> None:
    for values, privileged in (({}, False), (DIVIDED, True)):
        objects = helm.template(with_values(values))
        security = find_container(objects, "device-plugin")["securityContext"]
        assert security.get("privileged", False) is privileged


def test_a_privileged_container_is_not_kept_from_gaining_rights_which_no_api_server_takes(helm: Helm) -> None:
    privileged = {"securityContext": {"privileged": True}}
    objects = helm.template(with_values({"devicePlugin": {**privileged, "monitor": privileged}}))
    for name in ("device-plugin", "monitor"):
        security = find_container(objects, name)["securityContext"]
        assert security["privileged"] is True
        assert "allowPrivilegeEscalation" not in security


def test_a_driver_root_is_mounted_read_only_where_the_plugin_looks_for_it(helm: Helm) -> None:
    objects = helm.template(with_values(DRIVER_ELSEWHERE))
    (mount,) = (one for one in find_container(objects, "device-plugin")["volumeMounts"] if one["name"] == "driver-root")
    assert mount == {"name": "driver-root", "mountPath": InjectionSettings().driver_root_here, "readOnly": True}
    volumes = find(objects, "DaemonSet", "-device-plugin")["spec"]["template"]["spec"]["volumes"]
    (volume,) = (one["hostPath"] for one in volumes if one["name"] == "driver-root")
    # A folder that is not there yet is waited for, not made.
    assert volume == {"path": "/run/nvidia/driver", "type": "Directory"}


@pytest.mark.parametrize("root", ["/", "//"])
def test_the_whole_file_system_of_the_node_is_never_mounted(helm: Helm, root: str) -> None:
    objects = helm.template(with_values({"devicePlugin": {"nvidiaDriverRoot": root}}))
    volumes = [volume for spec in list_pod_specs(objects) for volume in spec["volumes"]]
    assert "driver-root" not in {volume["name"] for volume in volumes}
    assert "/" not in {volume.get("hostPath", {}).get("path") for volume in volumes}


def test_a_slash_behind_the_kubelets_folder_changes_nothing(helm: Helm) -> None:
    objects = helm.template(with_values({"devicePlugin": {"pluginPath": "/var/lib/kubelet/device-plugins/"}}))
    assert objects == helm.template(with_values({}))


def test_a_machine_description_is_simulated_by_plugin_and_monitor(helm: Helm) -> None:
    machine = '[[cards]]\nmodel = "NVIDIA L4"\nmemory_mib = 23034\n'
    objects = helm.template(with_values({"devicePlugin": {"simulatedCards": machine}}))
    assert find(objects, "ConfigMap", "-cards")["data"]["cards.toml"] == machine
    for name in ("device-plugin", "monitor"):
        assert "--cards=/cards/cards.toml" in find_container(objects, name)["args"]


def test_prometheus_finds_every_service_with_metrics(helm: Helm) -> None:
    objects = helm.template(with_values(MONITORED))
    services = [one for one in objects if one["kind"] == "Service"]
    for monitor in (one for one in objects if one["kind"] == "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = (one for one in services if wanted <= one["metadata"]["labels"].items())
        assert monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    assert json.loads(find(objects, "ConfigMap", "-dashboard")["data"]["gpuloom.json"])["title"] == "gpuloom"


@pytest.mark.parametrize(
    ("values", "readers"),
    [
        (MONITORED, [[{"kind": "ServiceAccount", **ACCOUNT}]]),
        ({"prometheus": {"serviceAccount": ACCOUNT}}, [[{"kind": "ServiceAccount", **ACCOUNT}]]),
        ({"prometheus": {"enabled": True, "serviceAccount": {"ownBinding": True}}}, []),
        ({"prometheus": {"enabled": True}, "metricsAuth": False}, []),
        ({"prometheus": {"enabled": True}, "scheduler": {"metricsBindAddress": ""}, **NO_NODES}, []),
    ],
    ids=["operator", "no operator", "own binding", "open", "no metrics"],
)
def test_who_may_read_metrics_is_bound_unless_nobody_must_or_somebody_else_does_it(
    helm: Helm, values: Any, readers: Any
) -> None:
    bindings = [one for one in helm.template(with_values(values)) if one["kind"] == "ClusterRoleBinding"]
    found = [one["subjects"] for one in bindings if one["roleRef"]["name"] == "gpuloom-metrics-reader"]
    assert found == readers


@pytest.mark.parametrize("form", ["key", {"name": "key"}])
def test_a_pull_secret_is_named_or_written_as_in_a_pod(helm: Helm, form: Any) -> None:
    values = {
        "global": {"imagePullSecrets": [form, {"name": "mirror"}]},
        "scheduler": {"extender": {"image": {"pullSecrets": [{"name": "key"}, "own"]}}},
        "devicePlugin": {"library": {"image": {"pullSecrets": [form]}}},
    }
    specs = list(list_pod_specs(helm.template(with_values(values))))
    found = [[one["name"] for one in spec["imagePullSecrets"]] for spec in specs]
    assert sorted(found) == [["key", "mirror"], ["key", "mirror"], ["key", "mirror", "own"]]


def test_those_who_write_on_pods_may_by_the_policy_and_whoever_is_named(helm: Helm) -> None:
    own = {"scheduler": {"admissionPolicy": {"accounts": ["system:serviceaccount:vendor:plugin"]}}}
    objects = helm.template(with_values(own))
    policy = find(objects, "ValidatingAdmissionPolicy", "-owned-keys")["spec"]
    lists = {one["name"]: one["expression"] for one in policy["variables"]}
    writers = {f"system:serviceaccount:{NAMESPACE}:{name}" for name in list_accounts_that_patch_pods(objects)}
    assert set(json.loads(lists["accounts"])) == writers | {"system:serviceaccount:vendor:plugin"}
    assert json.loads(lists["ownedAnnotations"]) == read_keys("owned-annotations.txt")
    assert json.loads(lists["ownedLabels"]) == read_keys("owned-labels.txt")


def test_the_policy_protects_what_vendors_of_ones_own_write_beside_what_the_shipped_ones_do(helm: Helm) -> None:
    shipped = read_keys("owned-annotations.txt")
    (profile,) = read_own_file(ACME, str(ACME)).profiles
    own = {"ownedAnnotations": [*sorted(profile.owned_keys), shipped[0]]}
    objects = helm.template(with_values({"vendors": {"profiles": {ACME.name: ACME.read_text()}, **own}}))
    policy = find(objects, "ValidatingAdmissionPolicy", "-owned-keys")["spec"]
    (found,) = (one["expression"] for one in policy["variables"] if one["name"] == "ownedAnnotations")
    assert json.loads(found) == [*shipped, *sorted(profile.owned_keys)]
    assert "acme.example/allocated" in found


def test_the_policy_refuses_and_depends_on_nothing_that_may_be_missing(helm: Helm) -> None:
    objects = helm.template(with_values({}))
    assert "paramKind" not in find(objects, "ValidatingAdmissionPolicy", "-owned-keys")["spec"]
    binding = find(objects, "ValidatingAdmissionPolicyBinding", "-owned-keys")["spec"]
    policy = find(objects, "ValidatingAdmissionPolicy", "-owned-keys")["metadata"]["name"]
    assert binding == {"policyName": policy, "validationActions": ["Deny"]}


def list_accounts_that_patch_pods(objects: list[Any]) -> set[str]:
    roles = {
        one["metadata"]["name"]
        for one in objects
        if one["kind"] == "ClusterRole"
        and any("pods" in rule.get("resources", []) and "patch" in rule["verbs"] for rule in one["rules"])
    }
    bindings = (one for one in objects if one["kind"] == "ClusterRoleBinding" and one["roleRef"]["name"] in roles)
    return {subject["name"] for one in bindings for subject in one["subjects"]}


@pytest.mark.parametrize(("version", "present"), [("v1.29.4", set()), ("v1.30.0", POLICY_KINDS)])
def test_the_policies_are_there_where_the_cluster_knows_policies(helm: Helm, version: str, present: set[str]) -> None:
    objects = helm.template(with_values({"policies": {"environment": {"enabled": True}}}), version=version)
    assert POLICY_KINDS & {one["kind"] for one in objects} == present


POLICIES = {
    "owned-keys": {"scheduler": {"admissionPolicy": {"enabled": False}}},
    "requests": {"policies": {"requests": {"enabled": False}}},
    "accounts": {"policies": {"accounts": {"enabled": False}}},
    "deletions": {"policies": {"deletions": {"enabled": False}}},
}


def list_policies(objects: list[Any]) -> dict[str, Any]:
    """Return the policies by name; each has a binding that denies, and needs nothing that may be missing."""
    policies = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "ValidatingAdmissionPolicy"}
    bindings = [one for one in objects if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    denied = {one["spec"]["policyName"]: one["spec"]["validationActions"] for one in bindings}
    assert denied == {name: ["Deny"] for name in policies}
    assert [one for one in policies.values() if "paramKind" in one or one["failurePolicy"] != "Fail"] == []
    return policies


def read_variables(policy: Any) -> dict[str, Any]:
    """Return what the chart wrote into the first variables of a policy."""
    variables = {one["name"]: one["expression"] for one in policy["variables"]}
    return {name: json.loads(text) for name, text in variables.items() if text[0] in '[{"tf'}


def test_every_policy_but_the_one_about_variables_is_on_and_has_a_switch(helm: Helm) -> None:
    names = set(list_policies(helm.template(with_values({}))))
    assert names == {f"gpuloom-{name}" for name in POLICIES}
    for name, values in POLICIES.items():
        assert set(list_policies(helm.template(with_values(values)))) == names - {f"gpuloom-{name}"}


def test_the_policy_about_requests_knows_every_resource_and_every_exception(helm: Helm) -> None:
    chosen = {"schedulers": ["volcano"], "namespaces": ["infra"]}
    values = {"schedulerName": "corp-scheduler", "policies": {"requests": chosen}}
    objects = helm.template(with_values(values, with_values(EVERYBODY)))
    told = read_variables(list_policies(objects)["gpuloom-requests"])
    assert sorted(told["resources"]) == sorted(list_managed(objects))
    assert {key: told[key] for key in chosen} == chosen
    assert told["ours"] == "corp-scheduler"


def test_the_policy_about_deletions_knows_every_resource_and_every_exception(helm: Helm) -> None:
    chosen = {"accounts": ["system:serviceaccount:ops:reaper"], "namespaces": ["infra"]}
    objects = helm.template(with_values({"policies": {"deletions": chosen}}, with_values(EVERYBODY)))
    told = read_variables(list_policies(objects)["gpuloom-deletions"])
    assert sorted(told["resources"]) == sorted(list_managed(objects))
    assert {key: told[key] for key in chosen} == chosen


def test_the_policy_about_accounts_knows_those_that_patch_and_what_vendors_of_ones_own_write(helm: Helm) -> None:
    own = {"vendors": {"ownedAnnotations": ["acme.example/allocated"], "nodeAnnotations": ["acme.example/lock"]}}
    objects = helm.template(with_values(own))
    told = read_variables(list_policies(objects)["gpuloom-accounts"])
    users = {f"system:serviceaccount:{NAMESPACE}:{name}" for name in list_accounts_that_patch_pods(objects)}
    assert {told["scheduler"], told["plugin"]} == users
    assert told["ownedAnnotations"] == [*read_keys("owned-annotations.txt"), "acme.example/allocated"]
    assert told["nodeAnnotations"] == [*read_keys("node-annotations.txt"), "acme.example/lock"]


def test_the_scheduler_may_close_cards_only_where_it_moves_pods(helm: Helm) -> None:
    objects = helm.template(with_values({"scheduler": {"defragmentation": {"enabled": True}}}))
    told = read_variables(list_policies(objects)["gpuloom-accounts"])
    assert {*told["nodeAnnotations"]} - {*read_keys("node-annotations.txt")} == {NODE_CORDON, NODE_MOVING}


def test_the_policy_about_variables_knows_what_the_webhook_writes_and_the_releases_own_pods(helm: Helm) -> None:
    chosen = {"enabled": True, "names": ["CORP_DEVICES"], "preload": ["/opt/a.so"], "namespaces": ["quiet"]}
    values = {"policies": {"environment": chosen}, "devices": {"nvidia": {"gpuCorePolicy": "force"}}}
    told = read_variables(list_policies(helm.template(with_values(values)))["gpuloom-environment"])
    assert set(told["names"]) == {*read_keys("environment.txt"), "CORP_DEVICES"}
    assert (told["priority"], told["corePolicy"]) == ("nvidia.com/priority", "force")
    assert (told["preload"], told["namespaces"]) == (["/opt/a.so"], [NAMESPACE, "quiet"])
    assert (told["everyPod"], told["denyEnvFrom"]) == (False, False)


EVICTING = {("pods/eviction", "create"), ("poddisruptionbudgets", "watch")}


@pytest.mark.parametrize(
    ("switched_on", "added"),
    [
        ({}, set()),
        ({"preemption": {"enabled": True}}, EVICTING | {("pods", "delete")}),
        ({"preemption": {"enabled": True, "budgets": "strict"}}, EVICTING),
        ({"defragmentation": {"enabled": True}}, {("pods/eviction", "create")}),
    ],
    ids=["off", "prefer", "strict", "moves"],
)
def test_the_scheduler_may_evict_and_delete_only_what_preemption_and_moves_need(
    helm: Helm, switched_on: Any, added: set[tuple[str, str]]
) -> None:
    def rights(values: Any) -> set[tuple[str, str]]:
        role = find(helm.template(with_values(values)), "ClusterRole", "gpuloom-scheduler")
        return {(kind, verb) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}

    before = rights({})
    assert not before & (EVICTING | {("pods", "delete")})
    assert rights({"scheduler": switched_on}) - before == added
