"""What ``device-config.yaml`` changes in the NVIDIA profile (wire protocol 7.1).

The file replaces the profile's values as a whole: a key that is absent is zero or empty, not the profile's value.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpuloom.model.mig import MigGeometry, MigPart
from gpuloom.vendors.profile import ContainerChanges, Profile, ProfileError, RequestDefaults, ResourceNames
from gpuloom.wire.device_config import MigEntry, decode_device_config
from gpuloom.wire.errors import WireError


def apply_device_config(profile: Profile, source: bytes | Mapping[str, Any], name: str) -> Profile:
    """Return the profile with the values of a device configuration; ``name`` is the file's, for messages.

    ``source`` is the file's text, or its content as parsed already.
    Raises ProfileError when it cannot be read or configures nothing.
    """
    try:
        section = decode_device_config(source)
    except WireError as error:
        raise ProfileError(f"{name}: {error}") from error
    changes: dict[str, Any] = {
        "resources": ResourceNames(
            count=section.resource_count_name,
            memory=section.resource_memory_name,
            memory_percentage=section.resource_memory_percentage_name,
            cores=section.resource_core_name,
            priority=section.resource_priority_name,
        ),
        "request": RequestDefaults(
            default_cards=section.default_cards,
            default_memory_mib=section.default_memory_mib,
            default_cores=section.default_cores,
            memory_factor=section.memory_factor,
        ),
        "geometries": tuple(
            (group.models, tuple(_expand(entries) for entries in group.allowed_geometries))
            for group in section.known_mig_geometries
        ),
        "container": ContainerChanges(
            hide_cards=section.overwrite_env,
            core_policy=section.gpu_core_policy,
            runtime_class=section.runtime_class_name,
        ),
    }
    return msgspec.structs.replace(profile, **changes)


def _expand(entries: Iterable[MigEntry]) -> MigGeometry:
    """Instances one by one, in order."""
    return tuple(MigPart(entry.memory_mib, entry.cores) for entry in entries for _ in range(entry.count))
