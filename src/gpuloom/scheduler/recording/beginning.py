"""How a recording begins: SETTINGS, then every object that is known, then one pass (recording 1, ``snapshot``)."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from gpuloom.model.mig import MigGeometry
from gpuloom.scheduler.recording.flags import write_flags
from gpuloom.scheduler.recording.projection import Projection
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.profile import Profile, load_nvidia
from gpuloom.wire.objects import KubeObject

JsonLine = dict[str, Any]

_NOT_DECIDING = frozenset({"http-bind", "cert-file", "key-file", "extender-bind", "metrics-bind-address"})
"""Where a process listens is nobody's business but its own."""


def begin(settings: SchedulerSettings, now: datetime, objects: Iterable[tuple[str, KubeObject]]) -> Iterator[JsonLine]:
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


def _settings_line(settings: SchedulerSettings, now: datetime) -> JsonLine:
    flags = {flag: value for flag, value in write_flags(settings).items() if flag not in _NOT_DECIDING}
    line = {"type": "SETTINGS", "time": write_time(now), "flags": flags | {"timezone": _name_zone(now)}}
    if settings.profile != load_nvidia():
        line["deviceConfig"] = write_device_config(settings.profile)
    return line


def _name_zone(now: datetime) -> str:
    """Name a zone with the offset of now; names of this form count west as positive."""
    hours, rest = divmod(now.utcoffset() or timedelta(), timedelta(hours=1))
    return "UTC" if rest or not hours else f"Etc/GMT{-hours:+d}"


def write_device_config(profile: Profile) -> JsonLine:
    """Say a profile as the content of ``device-config.yaml`` (wire protocol 7.1)."""
    names, request, container = profile.resources, profile.request, profile.container
    return {
        "nvidia": {
            "resourceCountName": names.count,
            "resourceMemoryName": names.memory,
            "resourceMemoryPercentageName": names.memory_percentage,
            "resourceCoreName": names.cores,
            "resourcePriorityName": names.priority,
            "overwriteEnv": container.hide_cards,
            "defaultMemory": request.default_memory_mib,
            "defaultCores": request.default_cores,
            "defaultGPUNum": request.default_cards,
            "memoryFactor": request.memory_factor,
            "gpuCorePolicy": container.core_policy,
            "runtimeClassName": container.runtime_class,
            "knownMigGeometries": [
                {"models": list(models), "allowedGeometries": [_write_geometry(one) for one in geometries]}
                for models, geometries in profile.geometries
            ],
        }
    }


def _write_geometry(geometry: MigGeometry) -> list[JsonLine]:
    return [{"core": part.cores, "memory": part.memory_mib, "count": 1} for part in geometry]
