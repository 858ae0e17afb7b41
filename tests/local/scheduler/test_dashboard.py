"""The chart's dashboard and alerts ask for metrics and labels that scheduler and monitor really have."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import yaml
from local.scheduler.site import DEFAULTS, Site

from gpuloom.node.monitor.metrics import HAMI_FAMILIES, OWN_FAMILIES

FILES = Path(__file__).parents[3] / "charts/gpuloom/files"
SETTINGS = dataclasses.replace(DEFAULTS, metrics_bind_address="127.0.0.1:0")
METRIC = re.compile(r"\b(?:hami|gpuloom)_\w+")
MATCHED = re.compile(r"(\w+)=~")
GROUPED = re.compile(r"(?:by|on) \(([\w, ]+)\)")
SHOWN = re.compile(r"{{(\w+)}}")
ADDED_BY_PROMETHEUS = {"instance", "le"}
SCHEDULER_LABELS = {"verb", "resource", "node", "device_uuid", "namespace", "quota_name"}


def list_targets() -> list[tuple[str, str]]:
    panels = json.loads((FILES / "dashboard.json").read_text())["panels"]
    return [(target["expr"], target["legendFormat"]) for panel in panels for target in panel["targets"]]


async def list_scheduler_metrics(site: Site) -> set[str]:
    """Return the names of samples, also of those families that have none now."""
    await site.start(SETTINGS)
    await site.process.wait_synced()
    async with site.session.get(f"{site.process.urls.metrics}/metrics") as reply:
        text = await reply.text()
    found = set()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        found |= {f"{name}_bucket"} if kind == "histogram" else {name}
    return found


def list_alerts() -> list[str]:
    """Return the expressions of all alerts."""
    (group,) = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    return [rule["expr"] for rule in group["rules"]]


@pytest.mark.parametrize(
    "expressions", [[expression for expression, _ in list_targets()], list_alerts()], ids=["dashboard", "alerts"]
)
async def test_every_metric_that_is_asked_for_exists(empty: Site, expressions: list[str]) -> None:
    counted = {f"{family.name}_total" for family in OWN_FAMILIES if family.kind == "counter"}
    monitored = {family.name for family in (*HAMI_FAMILIES, *OWN_FAMILIES)} | counted
    asked = [set(METRIC.findall(expression)) for expression in expressions]
    assert all(asked)
    assert set().union(*asked) - monitored - await list_scheduler_metrics(empty) == set()


def test_every_label_of_the_dashboard_belongs_to_a_metric() -> None:
    monitored = {label for family in (*HAMI_FAMILIES, *OWN_FAMILIES) for label in family.labels}
    asked = {
        label.strip()
        for expression, legend in list_targets()
        for text in [*GROUPED.findall(expression), *MATCHED.findall(expression), *SHOWN.findall(legend)]
        for label in text.split(",")
    }
    assert asked - monitored - SCHEDULER_LABELS - ADDED_BY_PROMETHEUS == set()
