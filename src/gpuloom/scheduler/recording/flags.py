"""SETTINGS to the settings of a scheduler process and back (recording 2): flags as on the command line, no dashes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, tzinfo
from functools import cache, partial
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

from gpuloom.scheduler.durations import parse_seconds
from gpuloom.scheduler.recording.errors import LineError
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError
from gpuloom.vendors.catalog import add_families, default_profiles, load_default_profiles, load_shipped
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.vendors.profile import Profile, ProfileError
from gpuloom.vendors.profilefile import VendorFile, make_profile
from gpuloom.wire.errors import WireError
from gpuloom.wire.words import decode_bool

_SECONDS = "_s"


def read_settings(
    flags: Mapping[str, Any],
    device_config: Mapping[str, Any] | None,
    vendors: Sequence[Mapping[str, Any]] = (),
) -> SchedulerSettings:
    """Make settings of flags, as JSON values or as text; flags of things that this process does not have are skipped.

    Raises LineError, naming the flag.
    """
    readers = _readers()
    values: dict[str, Any] = {"profiles": _read_profiles(device_config, vendors)}
    for flag, value in flags.items():
        name = flag.replace("-", "_")
        if name in readers:
            field, read = readers[name]
            try:
                values[field] = read(value)
            except (ValueError, TypeError) as error:
                raise LineError(f"flag {flag}: {error}") from error
    try:
        return SchedulerSettings(**values)
    except SettingsError as error:
        raise LineError(str(error)) from error


def read_zone(flags: Mapping[str, Any]) -> tzinfo:
    """Read the zone in which the recorded process wrote local times.

    Raises LineError when there is no such zone.
    """
    name = flags.get("timezone", "UTC")
    if name == "UTC":
        # Also where the system has no table of zones.
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise LineError(f"flag timezone: there is no time zone {name!r}") from error


def write_flags(settings: SchedulerSettings) -> dict[str, Any]:
    """Return the effective value of every flag that decisions depend on."""
    known = {field: flag for flag, (field, _) in _readers().items()}
    return {flag.replace("_", "-"): getattr(settings, field) for field, flag in known.items()}


def _read_profiles(
    device_config: Mapping[str, Any] | None, vendors: Sequence[Mapping[str, Any]]
) -> tuple[Profile, ...]:
    if device_config is None and not vendors:
        return load_default_profiles()
    try:
        own = [make_profile(one, f"vendors[{at}]") for at, one in enumerate(vendors)]
        families = add_families(load_shipped(), (VendorFile(one.word, {}, (one,)) for one in own))
        if device_config is None:
            return tuple(default_profiles(families))
        return tuple(apply_device_config(families, device_config, "deviceConfig"))
    except ProfileError as error:
        raise LineError(str(error)) from error


@cache
def _readers() -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """Flag, with underscores, to the field of the settings and how its value is read."""
    hints = get_type_hints(SchedulerSettings)
    readers: dict[str, tuple[str, Callable[[Any], Any]]] = {}
    for field in fields(SchedulerSettings):
        if field.name.endswith(_SECONDS):
            readers[field.name.removesuffix(_SECONDS)] = field.name, _read_duration_s
        elif field.name not in {"profiles", "workload"}:
            readers[field.name] = field.name, _reader_of(hints[field.name])
    return readers


def _reader_of(hint: Any) -> Callable[[Any], Any]:
    if hint is bool:
        return _read_bool
    if hint in {int, float}:
        return cast(Callable[[Any], Any], hint)
    if get_origin(hint) is Literal:
        return partial(_read_word, get_args(hint))
    return _read_text


def _read_word(words: tuple[str, ...], value: Any) -> str:
    if value not in words:
        raise ValueError(f"{value!r} is not one of {', '.join(words)}")
    return str(value)


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    try:
        return decode_bool(value)
    except WireError as error:
        raise ValueError(str(error)) from error


def _read_duration_s(value: Any) -> float:
    """Read seconds as a number, or Go's notation such as ``5m0s``."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no duration such as 5m or 28s")
    return parse_seconds(value)
