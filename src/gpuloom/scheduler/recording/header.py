"""How a recording begins: SETTINGS, then every object that is known, then one pass (recording 1, ``snapshot``)."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.engine.state.nominations import Nomination
from gpuloom.engine.state.outlook import HostCpu
from gpuloom.scheduler.outlook.lines import write_cpu, write_mix
from gpuloom.scheduler.recording.flags import write_flags
from gpuloom.scheduler.recording.projection import Projection
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.catalog import load_default_profiles
from gpuloom.vendors.device_config import write_device_config
from gpuloom.wire.objects import KubeObject

JsonLine = dict[str, Any]

_NOT_DECIDING = frozenset({"http-bind", "cert-file", "key-file", "extender-bind", "metrics-bind-address"})
"""Where a process listens is nobody's business but its own."""


def header_lines(
    settings: SchedulerSettings, now: datetime, objects: Iterable[tuple[str, KubeObject]]
) -> Iterator[JsonLine]:
    """Give the first lines; ``objects`` come with their kinds."""
    yield _settings_line(settings, now)
    projection = Projection(settings)
    for kind, item in objects:
        yield fact_line("ADDED", kind, projection.project(item))
    yield {"type": "RECONCILE"}


def write_time(moment: datetime) -> str:
    """Write the time of a line: finer than on the wire, because waiting times are compared."""
    return moment.isoformat(timespec="milliseconds")


def fact_line(type_: str, kind: str, projected: JsonLine) -> JsonLine:
    """Make the line of one object."""
    return {"type": type_, "object": {"kind": kind, **projected}}


def nomination_line(nomination: Nomination) -> JsonLine:
    """Make the line of a nomination; what it is besides follows from the pod."""
    line = {"type": "NOMINATED", "uid": nomination.uid, "node": nomination.node, "since": nomination.since}
    return {**line, "victims": sorted(nomination.victims)}


def outlook_line(mix: PodMix | None, cpu: Iterable[tuple[str, HostCpu | None]]) -> JsonLine:
    """Make the line of what the policy ``fragmentation`` looks at beside cards; None for the same pods as before."""
    line: JsonLine = {"type": "OUTLOOK"} if mix is None else {"type": "OUTLOOK", "pods": write_mix(mix)}
    amounts = write_cpu(cpu)
    return line | {"cpu": amounts} if amounts else line


def _settings_line(settings: SchedulerSettings, now: datetime) -> JsonLine:
    flags = {flag: value for flag, value in write_flags(settings).items() if flag not in _NOT_DECIDING}
    line = {"type": "SETTINGS", "time": write_time(now), "flags": flags | {"timezone": _name_zone(now)}}
    if settings.profiles != load_default_profiles():
        line["deviceConfig"] = write_device_config(settings.profiles)
        own = [msgspec.to_builtins(profile) for profile in settings.profiles if not profile.config.section]
        line |= {"vendors": own} if own else {}
    return line


def _name_zone(now: datetime) -> str:
    """Name a zone with the offset of now; names of this form count west as positive."""
    hours, rest = divmod(now.utcoffset() or timedelta(), timedelta(hours=1))
    return "UTC" if rest or not hours else f"Etc/GMT{-hours:+d}"
