"""The alerts of the chart: Prometheus reads them; each fires when it should, and leads to its help."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from real.chart.objects import find

from harness.availability import require
from harness.helm import CHART, Helm

ALERTS = CHART / "files/alerts.yaml"
RUNBOOK = CHART.parents[1] / "docs/troubleshooting.md"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
]
NAMES = [rule["alert"] for rule in RULES]
MINUTES = 60
DAY_S = 86400

CARD = '{node="n1", device_uuid="GPU-1", pod="%s"}'
BUCKET = 'gpuloom_request_duration_seconds_bucket{verb="filter", le="%s"}'
IDLE = 'gpuloom_idle_cards{vendor="NVIDIA"}'
PENDING = 'gpuloom_pods_pending{cause="cards"}'
QUIET = {
    'gpuloom_in_charge{pod="a"}': "1",
    'gpuloom_in_charge{pod="b"}': "0",
    f"hami_gpu_memory_limit_bytes{CARD % 'a'}": "1000",
    f"hami_gpu_memory_allocated_bytes{CARD % 'a'}": "1000",
    f"hami_gpu_core_limit_ratio{CARD % 'a'}": "100",
    f"hami_gpu_core_allocated_ratio{CARD % 'a'}": "100",
    f"hami_gpu_shared_count{CARD % 'a'}": "1",
    'gpuloom_node_lock_held_seconds{node="n1", lock="l"}': "590",
    'gpuloom_rival_leases{where="named"}': "0",
    'gpuloom_rival_leases{where="elsewhere"}': "1",
    "gpuloom_foreign_bindings_total": "7",
    'gpuloom_foreign_pods{node="n1"}': "0",
    'hami_gpu_shared_count{node="cordoned", device_uuid="GPU-2"}': "0",
    IDLE: "0",
    PENDING: "3",
    'gpuloom_pods_pending{cause="unseen"}': "1",
    'gpuloom_pods_pending_oldest_seconds{cause="cards"}': "600",
    'gpuloom_pods_pending_oldest_seconds{cause="gate"}': "9000",
    'gpuloom_pods_pending_oldest_seconds{cause="scheduler"}': "9000",
    "gpuloom_certificate_not_after_seconds": str(30 * DAY_S),
    'gpuloom_audit_findings{finding="MemoryExceeded", instance="m"}': "0",
    BUCKET % "0.25": "0+1000x60",
    BUCKET % "1.0": "0+1010x60",
    BUCKET % "+Inf": "0+1010x60",
    'gpuloom_watch_age_seconds{resource="pods"}': "60",
    "gpuloom_pods_unmutated_total": "4",
    "gpuloom_unaccounted_pods": "0",
}
"""A cluster in which all is well, and full but for a card that takes no pods: series and values, at each minute."""

LOUD: list[tuple[str, dict[str, str | None]]] = [
    ("GpuloomNobodyDecides", {'gpuloom_in_charge{pod="a"}': "0"}),
    ("GpuloomNobodyDecides", {'gpuloom_in_charge{pod="a"}': None, 'gpuloom_in_charge{pod="b"}': None}),
    ("GpuloomCardOverallocated", {f"hami_gpu_memory_allocated_bytes{CARD % 'b'}": "1001"}),
    ("GpuloomCardOverallocated", {f"hami_gpu_core_allocated_ratio{CARD % 'b'}": "101"}),
    ("GpuloomNodeLockHeld", {'gpuloom_node_lock_held_seconds{node="n1", lock="l"}': "601"}),
    ("GpuloomForeignDecider", {'gpuloom_rival_leases{where="named"}': "1"}),
    ("GpuloomForeignDecider", {'gpuloom_foreign_pods{node="n1"}': "1"}),
    ("GpuloomForeignDecider", {"gpuloom_foreign_bindings_total": "0+1x60"}),
    ("GpuloomNodeSilent", {'gpuloom_node_silent{node="n1", vendor="NVIDIA"}': "1"}),
    ("GpuloomCardUnhealthy", {'gpuloom_unhealthy_cards{node="n1", vendor="NVIDIA"}': "1"}),
    ("GpuloomPodsPendingBesideFreeCards", {IDLE: "1"}),
    ("GpuloomPodsPendingBesideFreeCards", {IDLE: "1", PENDING: None, 'gpuloom_pods_pending{cause="node"}': "1"}),
    ("GpuloomPodWaitsLong", {'gpuloom_pods_pending_oldest_seconds{cause="cards"}': "601"}),
    ("GpuloomPodWaitsLong", {'gpuloom_pods_pending_oldest_seconds{cause="node"}': "601"}),
    ("GpuloomCertificateEnds", {"gpuloom_certificate_not_after_seconds": str(13 * DAY_S)}),
    ("GpuloomAuditFinding", {'gpuloom_audit_findings{finding="MemoryExceeded", instance="m"}': "1"}),
    ("GpuloomDecisionsSlow", {BUCKET % "0.25": "0+999x60"}),
    ("GpuloomWatchSilent", {'gpuloom_watch_age_seconds{resource="pods"}': "121"}),
    ("GpuloomPodsUnmutated", {"gpuloom_pods_unmutated_total": "0+1x60"}),
    ("GpuloomCardsClosed", {"gpuloom_unaccounted_pods": "1"}),
]
"""Which alert fires alone when these series are other than in that cluster; None: the series is missing."""


@pytest.fixture(scope="session")
def promtool() -> str:
    """Return Prometheus' tool; skip, or fail in CI, where it is not installed."""
    found = shutil.which("promtool")
    require(found, "promtool is not installed (Debian's prometheus, see tools/debian-packages.txt)")
    return str(found)


def run(promtool: str, *arguments: str | Path) -> None:
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def hold(promtool: str, directory: Path, changes: dict[str, str | None], firing: list[str]) -> None:
    """Let Prometheus evaluate the rules for an hour over the series, and compare which alerts fire at its end."""
    series = [
        {"series": name, "values": value if "x" in value else f"{value}+0x{MINUTES}"}
        for name, value in (QUIET | changes).items()
        if value is not None
    ]
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing]
    asked = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"}) > bool 0',
        "eval_time": f"{MINUTES}m",
        "exp_samples": expected,
    }
    path = directory / "test.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(ALERTS)],
                "evaluation_interval": "1m",
                "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [asked]}],
            }
        )
    )
    run(promtool, "test", "rules", path)


def test_prometheus_reads_the_rules(promtool: str) -> None:
    run(promtool, "check", "rules", ALERTS)


def test_nothing_fires_in_a_full_cluster_in_which_all_is_well_although_a_card_is_idle_that_takes_no_pods(
    promtool: str, tmp_path: Path
) -> None:
    hold(promtool, tmp_path, {}, [])


@pytest.mark.parametrize(("name", "changes"), LOUD)
def test_an_alert_fires_alone(promtool: str, tmp_path: Path, name: str, changes: dict[str, str | None]) -> None:
    hold(promtool, tmp_path, changes, [name])


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    assert {name for name, _ in LOUD} == set(NAMES)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_every_alert_has_its_section_and_says_how_bad_it_is(rule: dict[str, Any]) -> None:
    assert f"\n### {rule['alert']}\n" in RUNBOOK.read_text()
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert re.search(r"\w\.$", rule["annotations"]["summary"]) is None
    assert rule["annotations"].keys() == {"summary", "description"}


def test_no_section_is_about_an_alert_that_is_none() -> None:
    assert set(re.findall(r"^### (Gpuloom\w+)$", RUNBOOK.read_text(), re.MULTILINE)) == set(NAMES)


def give_rules(helm: Helm, values: dict[str, Any]) -> tuple[Any, list[dict[str, Any]]]:
    """Return the metadata of the PrometheusRule that the chart makes of these values, and its rules."""
    made = find(helm.template({"prometheus": {"rules": {"enabled": True, **values}}}), "PrometheusRule")
    (group,) = made["spec"]["groups"]
    return made["metadata"], group["rules"]


@pytest.mark.chart
@pytest.mark.parametrize("end", ["", "#an-alert-fires"])
def test_the_chart_gives_the_rules_to_the_operator_with_links_to_their_help(helm: Helm, end: str) -> None:
    assert [one for one in helm.template({}) if one["kind"] == "PrometheusRule"] == []
    metadata, rules = give_rules(
        helm, {"labels": {"release": "kube-prometheus"}, "runbookURL": f"https://wiki.example/gpus{end}"}
    )
    assert metadata["labels"]["release"] == "kube-prometheus"
    links = {rule["alert"]: rule["annotations"].pop("runbook_url") for rule in rules}
    assert rules == RULES
    assert links == {name: f"https://wiki.example/gpus#{name.lower()}" for name in NAMES}


@pytest.mark.chart
def test_without_a_place_where_the_help_is_read_alerts_have_no_link(helm: Helm) -> None:
    _, rules = give_rules(helm, {})
    assert rules == RULES
