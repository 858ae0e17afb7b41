"""What is read out of an installation's pods and ConfigMaps."""

from typing import Any

import msgspec
import pytest

from gpuloom.doctor.cluster.installation import (
    ExtenderFlags,
    find_gpuloom,
    parse_flags,
    port_of,
    read_catalog,
    read_flags,
    read_kube_scheduler,
)
from gpuloom.doctor.cluster.objects import ConfigMap, InstalledPod
from gpuloom.vendors.profile import ProfileError

KUBE = {
    "name": "kube-scheduler",
    "image": "registry.example/kube-scheduler:v1.34.2",
    "command": ["kube-scheduler", "--config=/config/config.yaml", "-v=4"],
}
CHART = {
    "name": "extender",
    "image": "gpuloom/scheduler:1",
    "args": ["scheduler", "--http_bind=:9443", "--extender-bind=127.0.0.1:9398", "--tls-self-manage=tls",
             "--scheduler-name=hami-scheduler", "--node-lock-timeout=10m"],
}  # fmt: skip
HAMI = {
    "name": "vgpu-scheduler-extender",
    "image": "hami:v2.10.0",
    "command": ["scheduler", "--http_bind=0.0.0.0:443", "--cert_file=/tls/tls.crt", "--scheduler-name", "hami",
                "--leader-elect", "--leader-elect-resource-name=hami", "--leader-elect-resource-namespace=gpu"],
}  # fmt: skip
YAML = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles: [{schedulerName: hami-scheduler}]
extenders:
- {urlPrefix: "http://127.0.0.1:9398", filterVerb: filter, prioritizeVerb: prioritize, bindVerb: bind, httpTimeout: 30s,
   managedResources: [{name: nvidia.com/gpu, ignoredByScheduler: true}]}
"""


def installed(*containers: dict[str, Any]) -> InstalledPod:
    body = {"metadata": {"name": "s", "namespace": "gpu"}, "spec": {"containers": list(containers)}}
    return msgspec.convert(body, InstalledPod)


def config_map(**data: str) -> dict[str, ConfigMap]:
    return {"c": ConfigMap(data={key.replace("_yaml", ".yaml").replace("_", "-"): text for key, text in data.items()})}


def read_extender(container: dict[str, Any]) -> ExtenderFlags:
    found = find_gpuloom(installed(KUBE, container))
    assert found is not None
    return read_flags(found)


def test_the_charts_extender_answers_on_loopback_without_tls() -> None:
    flags = read_extender(CHART)
    assert (flags.address, flags.is_https, flags.lock_timeout_s) == ("127.0.0.1:9398", False, 600.0)


def test_hamis_extender_answers_on_the_main_port_with_tls() -> None:
    flags = read_extender(HAMI)
    assert (flags.address, flags.is_https, flags.scheduler_name) == ("0.0.0.0:443", True, "hami")
    assert (flags.leader_elect, flags.lease_name, flags.lease_namespace) == (True, "hami", "gpu")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [([], False), (["--tls-webhook=hook"], True), (["--cert_file=/tls/tls.crt", "--key_file=/tls/tls.key"], True)],
)
def test_an_extender_that_nobody_knows_an_authority_of_expects_no_webhook(flags: list[str], *, expected: bool) -> None:
    assert read_extender({"args": ["scheduler", "--scheduler-name=s", *flags]}).expects_webhook is expected


@pytest.mark.parametrize(
    ("flags", "expected"), [([], True), (["--force-overwrite-default-scheduler"], True),
                            (["--force-overwrite-default-scheduler=false"], False)],
)  # fmt: skip
def test_pods_of_the_default_scheduler_are_taken_over_unless_it_is_said_otherwise(
    flags: list[str], *, expected: bool
) -> None:
    assert read_extender({"args": ["scheduler", "--scheduler-name=s", *flags]}).overwrites_default is expected


def test_a_pod_without_gpuloom_has_no_extender() -> None:
    assert find_gpuloom(installed(KUBE)) is None


def test_flags_are_read_in_every_spelling() -> None:
    assert parse_flags(["run", "--a=1", "--b", "2", "-c", "--d"]) == {"a": "1", "b": "2", "c": "true", "d": "true"}


@pytest.mark.parametrize(
    ("address", "port"), [(":9443", 9443), ("127.0.0.1:1", 1), ("http://h:8/x", 8), ("h", 0), ("h:x", 0)]
)
def test_ports_are_read_from_addresses_and_urls(address: str, port: int) -> None:
    assert port_of(address) == port


def test_the_configuration_that_kube_scheduler_was_given_is_read() -> None:
    found = read_kube_scheduler(installed(KUBE, CHART), config_map(other_yaml=YAML, config_yaml=YAML))
    assert found is not None
    assert found.configuration is not None
    assert (found.minor, found.source) == (34, "ConfigMap gpu/c, config.yaml")
    assert found.configuration.extenders[0].managed_resources[0].ignored_by_scheduler


def test_a_configuration_of_another_form_is_told() -> None:
    found = read_kube_scheduler(installed(KUBE), config_map(config_yaml="KubeSchedulerConfiguration"))
    assert found is not None
    assert found.error


def test_a_configuration_that_is_not_there_is_told() -> None:
    found = read_kube_scheduler(installed(KUBE), {})
    assert found is not None
    assert "config.yaml" in found.error


def test_a_pod_without_kube_scheduler_has_no_configuration() -> None:
    assert read_kube_scheduler(installed(CHART), {}) is None


def test_resources_are_named_by_the_installations_device_configuration() -> None:
    text = "nvidia: {resourceCountName: example.com/vgpu}"
    catalog = read_catalog(config_map(device_config_yaml=text), ())
    assert [profile.resources.all for profile in catalog] == [("example.com/vgpu",)]


def test_a_device_configuration_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ProfileError, match=r"device-config\.yaml"):
        read_catalog(config_map(device_config_yaml="[]"), ())


def test_without_a_device_configuration_the_shipped_names_count() -> None:
    assert read_catalog({}, ())["NVIDIA"].resources.count == "nvidia.com/gpu"
