"""What ``device-config.yaml`` changes in the profiles (wire protocol 7.1, vendors 3).

A family's section replaces its profile's values as a whole: a key that is absent is zero or empty, not the profile's
value. A family whose section is absent is off. Sections of no family are left alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from gpuloom.model.mig import MOST_SLICES
from gpuloom.vendors.profile import Geometries, Profile, ProfileError, Template
from gpuloom.vendors.profilecheck import suggest
from gpuloom.vendors.profilefile import VendorFile, fill, make_profile, merge
from gpuloom.wire.device_config import MigEntry, MigGeometries, decode_sections
from gpuloom.wire.errors import WireError


def apply_device_config(families: Iterable[VendorFile], source: bytes | Mapping[str, Any], name: str) -> list[Profile]:
    """Return the profiles with the values of a device configuration; ``name`` is the file's, for messages.

    ``source`` is the file's text, or its content as parsed already. Families without a section of their own, such as
    a user's, stay as they are.
    Raises ProfileError when it cannot be read or configures nothing.
    """
    try:
        sections = decode_sections(source)
    except WireError as error:
        raise ProfileError(f"{name}: {error}") from error
    return [profile for family in families for profile in _configure(family, sections, name)]


def _configure(family: VendorFile, sections: Mapping[str, Any], name: str) -> Iterable[Profile]:
    rules = family.config
    if not rules.section:
        return family.profiles
    section = sections.get(rules.section)
    if not section:
        return ()
    where = f"{name}: {rules.section}"
    if not rules.each:
        return (_apply(family, _table(section, where), {}, where),)
    beside: Mapping[str, Any] = {}
    if isinstance(section, Mapping):
        beside, section = section, section.get(rules.under, []) if rules.under else section
    if not isinstance(section, list):
        raise ProfileError(f"{where} must be a list, an entry for each chip")
    found = (_apply(family, _table(one, where), beside, f"{where}[{at}]") for at, one in enumerate(section))
    return tuple(profile for profile in found if profile.word not in family.replaced)


def _apply(family: VendorFile, section: Mapping[str, Any], beside: Mapping[str, Any], where: str) -> Profile:
    """Make the profile of one section; of several keys for one field the first that says something counts."""
    rules, values = family.config, dict[str, Any]()
    for keys, source in ((rules.keys, section), (rules.beside, beside)):
        for key, field in keys.items():
            value = _read(family, field, source.get(key), f"{where}.{key}")
            values[field] = values.get(field) or value
    word = values.pop("word", family.content["word"])
    if not word:
        raise ProfileError(f"{where}: commonWord is missing; it is the chip's word on the wire")
    _check_known(rules.keys, section, where)
    content = merge({**family.content, "word": word}, _nest(values))
    return make_profile(fill(content, word), where)


def _check_known(keys: Mapping[str, str], section: Mapping[str, Any], where: str) -> None:
    """Refuse a section without any known key: nothing in it would have an effect."""
    if not any(key in keys for key in section):
        return
    for key in filter(lambda key: isinstance(key, str), section):
        if key not in keys and key.casefold() in {known.casefold() for known in keys}:
            raise ProfileError(f"{where}: unknown key {key}; {suggest(key, keys)}")


def _read(family: VendorFile, field: str, value: Any, where: str) -> Any:
    """Read one value; absent is zero or empty."""
    if field in _CONVERSIONS:
        try:
            return _CONVERSIONS[field](value or [])
        except (msgspec.ValidationError, ProfileError, KeyError, TypeError) as error:
            raise ProfileError(f"{where}: {error}") from error
    known = "" if field == "word" else attrgetter(field)(family.profiles[0])
    if value is None:
        return type(known)()
    if type(value) is not type(known):
        raise ProfileError(f"{where} is {value!r}, it must be {_NAMES[type(known)]}")
    return value


_NAMES: Mapping[type, str] = {str: "text", int: "a whole number", bool: "true or false"}


def _nest(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for field, value in values.items():
        part, _, key = field.rpartition(".")
        nested = merge(nested, {part: {key: value}} if part else {key: value})
    return nested


def write_device_config(profiles: Iterable[Profile]) -> dict[str, Any]:
    """Return the content of ``device-config.yaml`` for some profiles; a user's own families have no place in it."""
    sections: dict[str, Any] = {}
    for profile in profiles:
        rules = profile.config
        if not rules.section:
            continue
        values = _write(profile, rules.keys)
        if not rules.each:
            sections.setdefault(rules.section, {}).update(values)
        elif not rules.under:
            sections.setdefault(rules.section, []).append(values)
        else:
            section = sections.setdefault(rules.section, {**_write(profile, rules.beside), rules.under: []})
            section[rules.under].append(values)
    return sections


def _write(profile: Profile, keys: Mapping[str, str]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for key, field in keys.items():
        value = attrgetter(field)(profile)
        written[key] = _WRITERS[field](value) if field in _WRITERS else value
    return written


def _table(section: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(section, Mapping):
        raise ProfileError(f"{where} must be a table of keys and values")
    return section


def _read_geometries(value: Any) -> list[Any]:
    return [
        [list(group.models), [_write_out(entries) for entries in group.allowed_geometries]]
        for group in msgspec.convert(value, list[MigGeometries])
    ]


def _write_out(geometry: Sequence[MigEntry]) -> list[dict[str, int]]:
    """Return the instances of a geometry one by one, in order.

    Raises ProfileError.
    """
    if (number := sum(entry.count for entry in geometry)) > MOST_SLICES:
        raise ProfileError(f"a geometry of {number} instances, more than any card has slices ({MOST_SLICES})")
    return [{"memory_mib": e.memory_mib, "cores": e.cores} for e in geometry for _ in range(e.count)]


class _ConfigTemplate(msgspec.Struct, frozen=True):
    name: str
    memory: int
    ai_core: int = msgspec.field(default=0, name="aiCore")
    ai_cpu: int = msgspec.field(default=0, name="aiCPU")


def _read_templates(value: Any) -> list[Any]:
    return [
        {"name": one.name, "memory_mib": one.memory, "cores": one.ai_core, "cpus": one.ai_cpu}
        for one in msgspec.convert(value, list[_ConfigTemplate])
    ]


def _write_geometries(value: Geometries) -> list[dict[str, Any]]:
    return [
        {
            "models": list(models),
            "allowedGeometries": [
                [{"core": part.cores, "memory": part.memory_mib, "count": 1} for part in way] for way in ways
            ],
        }
        for models, ways in value
    ]


def _write_templates(value: tuple[Template, ...]) -> list[dict[str, Any]]:
    return [{"name": one.name, "memory": one.memory_mib, "aiCore": one.cores, "aiCPU": one.cpus} for one in value]


_WRITERS: Mapping[str, Callable[[Any], list[Any]]] = {
    "geometries": _write_geometries,
    "traits.templates": _write_templates,
}
_CONVERSIONS: Mapping[str, Callable[[Any], list[Any]]] = {
    "geometries": _read_geometries,
    "traits.templates": _read_templates,
}
