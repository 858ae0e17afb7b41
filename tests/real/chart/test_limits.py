"""Numbers, durations and ports that cannot work are refused before anything is made."""

import re
from typing import Any

import pytest
from real.chart.objects import find, find_container, with_values

from gpuloom.doctor.cluster.kubescheduler import MARGIN_S
from gpuloom.node.sharing import MOST_SHARES
from gpuloom.scheduler.flags import SchedulerFlags
from harness.helm import Helm, HelmError

pytestmark = pytest.mark.chart

NODE_PORTS: dict[str, Any] = {"service": {"type": "NodePort"}}


def refuse(helm: Helm, values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        helm.template(with_values(values))


def wait(http_s: int, lock: str) -> dict[str, Any]:
    return {"scheduler": {"extenderHTTPTimeout": http_s, "nodeLockRetryTimeout": lock}}


@pytest.mark.parametrize("interval", ["9s", "0m", "0.1m", "5s4.9s", "0h9.999s"])
def test_a_monitor_that_would_not_start_is_not_made(helm: Helm, interval: str) -> None:
    complaint = f"devicePlugin.monitor.resyncInterval is {interval}: give 10s or more, because a new pod's directory"
    refuse(helm, {"devicePlugin": {"monitor": {"resyncInterval": interval}}}, complaint)


@pytest.mark.parametrize("interval", ["10s", "0.5m", "5s5s", "1h"])
def test_a_monitor_that_starts_is_made(helm: Helm, interval: str) -> None:
    objects = helm.template(with_values({"devicePlugin": {"monitor": {"resyncInterval": interval}}}))
    assert f"--resync-interval={interval}" in find_container(objects, "monitor")["args"]


def test_no_interval_counts_where_there_is_no_monitor(helm: Helm) -> None:
    assert helm.template(with_values({"devicePlugin": {"monitor": {"enabled": False, "resyncInterval": "9s"}}}))


@pytest.mark.parametrize(
    ("http_s", "lock", "least_s"),
    [(28, "28s", 29), (28, "", 29), (5, "28s", 29), (60, "1m", 61), (29, "28.5s", 30), (1, "1ms", 2)],
)
def test_kube_scheduler_waits_longer_than_a_bind_may(helm: Helm, http_s: int, lock: str, least_s: int) -> None:
    told = lock or "28s"
    complaint = (
        f"scheduler.extenderHTTPTimeout is {http_s} seconds, but a bind may wait {told} for its node's lock "
        f"(scheduler.nodeLockRetryTimeout): kube-scheduler would give it up before it is answered; "
        f"set extenderHTTPTimeout to {least_s} or more, or nodeLockRetryTimeout to less"
    )
    refuse(helm, wait(http_s, lock), complaint)


@pytest.mark.parametrize(("http_s", "lock"), [(29, "28s"), (29, ""), (30, "28.5s"), (1, "0s"), (61, "1m")])
def test_a_bind_that_is_waited_for_may_wait(helm: Helm, http_s: int, lock: str) -> None:
    assert helm.template(with_values(wait(http_s, lock)))


def test_the_chart_and_the_doctor_want_the_same_of_what_is_waited() -> None:
    assert (SchedulerFlags().node_lock_retry_timeout_s, MARGIN_S) == (28.0, 1.0)


def test_a_lock_that_never_counts_is_none(helm: Helm) -> None:
    refuse(helm, {"scheduler": {"nodeLockExpire": "0s"}}, "at '/scheduler/nodeLockExpire': '0s' does not match")


def list_taken_ports(helm: Helm) -> list[str]:
    objects = helm.template(with_values({"scheduler": {"metricsBindAddress": ""}}))
    containers = find(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    declared = [str(port["containerPort"]) for one in containers for port in one["ports"]]
    bound = re.findall(r"bind=.*:(\d+)$", "\n".join(find_container(objects, "extender")["args"]), re.MULTILINE)
    return sorted({*declared, *bound})


def test_metrics_have_a_port_of_the_schedulers_pod_to_themselves(helm: Helm) -> None:
    taken = list_taken_ports(helm)
    assert taken == ["10259", "9396", "9398", "9443"]
    for port in taken:
        complaint = f"scheduler.metricsBindAddress is :{port}, but in the scheduler's pod {port} is the port of "
        refuse(helm, {"scheduler": {"metricsBindAddress": f":{port}"}}, complaint)
    assert helm.template(with_values({"scheduler": {"metricsBindAddress": ":9396", "dashboard": {"enabled": False}}}))


@pytest.mark.parametrize("address", [":0", ":65536", "0.0.0.0:99999", "[::]:0"])
def test_metrics_have_a_port_that_there_is(helm: Helm, address: str) -> None:
    complaint = f"scheduler.metricsBindAddress is {address}: give a port of 1 to 65535"
    refuse(helm, {"scheduler": {"metricsBindAddress": address}}, complaint)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
@pytest.mark.parametrize("wanted", [{"enabled": True}, {"rules": {"enabled": True}}], ids=["monitors", "rules"])
def test_prometheus_is_not_sent_to_metrics_that_it_cannot_reach(helm: Helm, host: str, wanted: dict[str, Any]) -> None:
    prometheus = wanted | {"serviceAccount": {"ownBinding": True}}
    values = {"scheduler": {"metricsBindAddress": f"{host}:9395"}, "prometheus": prometheus}
    refuse(helm, values, f"scheduler.metricsBindAddress is {host}:9395, where Prometheus cannot reach it")


@pytest.mark.parametrize(
    ("values", "one", "other"),
    [
        (
            {"scheduler": {"service": {"httpPort": 31993}}},
            "scheduler.service.httpPort",
            "scheduler.service.monitorPort",
        ),
        (
            {"scheduler": {"service": {"type": "NodePort", "schedulerPort": 31993}}},
            "scheduler.service.schedulerPort",
            "scheduler.service.monitorPort",
        ),
        (
            {"scheduler": NODE_PORTS, "devicePlugin": {"service": {"type": "NodePort", "httpPort": 31993}}},
            "scheduler.service.monitorPort",
            "devicePlugin.service.httpPort",
        ),
        (
            {
                "scheduler": NODE_PORTS | {"metricsBindAddress": ""},
                "devicePlugin": {"service": {"type": "NodePort", "httpPort": 31998}},
            },
            "scheduler.service.schedulerPort",
            "devicePlugin.service.httpPort",
        ),
    ],
)
def test_no_two_services_have_one_port(helm: Helm, values: dict[str, Any], one: str, other: str) -> None:
    complaint = rf"{re.escape(one)} and {re.escape(other)} are both \d+, .*: change one of them"
    with pytest.raises(HelmError, match=complaint):
        helm.template(with_values(values))


@pytest.mark.parametrize(
    "values",
    [
        {"scheduler": {"service": {"schedulerPort": 31993}}},
        {"scheduler": {"metricsBindAddress": "", "service": {"type": "NodePort", "schedulerPort": 31993}}},
        {"scheduler": NODE_PORTS, "devicePlugin": {"service": {"httpPort": 31993}}},
        {"devicePlugin": {"service": {"type": "NodePort", "httpPort": 31998}}},
        {
            "scheduler": NODE_PORTS,
            "devicePlugin": {"monitor": {"enabled": False}, "service": {"type": "NodePort", "httpPort": 31998}},
        },
        {"scheduler": {"service": {"type": "NodePort", "httpPort": 31998}}},
    ],
    ids=["no-node-port", "no-metrics", "one-on-nodes", "other-on-nodes", "no-monitor", "port-and-node-port"],
)
def test_ports_that_never_meet_may_be_the_same(helm: Helm, values: dict[str, Any]) -> None:
    assert helm.template(with_values(values))


@pytest.mark.parametrize(("replicas", "least"), [(2, 2), (2, 3), (2, "51%"), (3, "100%"), (3, "67%")])
def test_a_budget_lets_a_node_be_drained(helm: Helm, replicas: int, least: Any) -> None:
    values = {"scheduler": {"replicas": replicas, "podDisruptionBudget": {"minAvailable": least}}}
    refuse(helm, values, f"scheduler.podDisruptionBudget.minAvailable is {least} of scheduler.replicas={replicas}: no")


@pytest.mark.parametrize(("replicas", "least"), [(2, "50%"), (3, 2), (3, "66%"), (1, 1), (2, 0)])
def test_a_budget_that_lets_it_is_taken(helm: Helm, replicas: int, least: Any) -> None:
    values = {"scheduler": {"replicas": replicas, "podDisruptionBudget": {"minAvailable": least}}}
    assert helm.template(with_values(values))


def test_no_budget_is_looked_at_where_there_is_none(helm: Helm) -> None:
    assert helm.template(with_values({"scheduler": {"podDisruptionBudget": {"enabled": False, "minAvailable": 2}}}))


@pytest.mark.parametrize(
    "mig",
    [{"migStrategy": "single"}, {"migStrategy": "mixed"}, {"divideCards": True}],
    ids=["single", "mixed", "divided"],
)
def test_device_files_do_not_go_with_instances(helm: Helm, mig: dict[str, Any]) -> None:
    ((name, value),) = mig.items()
    said = f"devicePlugin.passDeviceSpecsEnabled is true beside devicePlugin.{name}={str(value).lower()}, but"
    refuse(helm, {"devicePlugin": {"passDeviceSpecsEnabled": True, **mig}}, said)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (f'"devicesplitcount": {MOST_SHARES + 1}', f"devicesplitcount of node a must be at most {MOST_SHARES}, not"),
        ('"devicememoryscaling": -1', "devicememoryscaling of node a must be 0 or more, not -1"),
        ('"devicecorescaling": -0.5', "devicecorescaling of node a must be 0 or more, not -0.5"),
    ],
)
def test_numbers_of_a_node_are_those_with_which_its_plugin_starts(helm: Helm, entry: str, complaint: str) -> None:
    config = f'{{"nodeconfig": [{{"name": "a", {entry}}}]}}'
    refuse(helm, {"devicePlugin": {"nodeConfiguration": {"config": config}}}, complaint)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"cards": 2}, "scheduler.workload.pods, entry 2, asks for 2 cards of no vendor: name it, such as NVIDIA"),
        ({"vendor": "NVIDIA"}, "scheduler.workload.pods, entry 2, names vendor NVIDIA but no cards: give their number"),
        ({"memoryMib": 2**31}, "at '/scheduler/workload/pods/1/memoryMib': maximum: got"),
        ({"cpuMilli": 2**40 + 1}, "at '/scheduler/workload/pods/1/cpuMilli': maximum: got"),
    ],
)
def test_pods_to_expect_are_those_that_the_scheduler_takes(helm: Helm, entry: dict[str, Any], complaint: str) -> None:
    refuse(helm, {"scheduler": {"workload": {"pods": [{"cpuMilli": 1}, entry]}}}, complaint)


@pytest.mark.parametrize("interval", ["1.5m", "30s1m", "1m1m"])
def test_prometheus_is_told_an_interval_that_its_operator_takes(helm: Helm, interval: str) -> None:
    refuse(helm, {"prometheus": {"interval": interval}}, f"at '/prometheus/interval': '{interval}' does not match")


@pytest.mark.parametrize("interval", ["0s", "0h0m0s", "0ms"])
def test_monitors_that_are_never_asked_have_no_token_made(helm: Helm, interval: str) -> None:
    objects = helm.template(with_values({"scheduler": {"dashboard": {"monitorInterval": interval}}}))
    mounts = {one["name"] for one in find_container(objects, "extender")["volumeMounts"]}
    assert "monitor-token" not in mounts
