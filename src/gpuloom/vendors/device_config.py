"""``device-config.yaml``, the file that HAMi's scheduler and device plugin share (wire protocol 7.1).

A key that is absent is zero or empty, not the chart's value: the file replaces the profile's values as a whole.
"""

from typing import Any

import msgspec

from gpuloom.vendors.profile import ContainerChanges, Profile, ProfileError, RequestDefaults, ResourceNames


class _Nvidia(msgspec.Struct, frozen=True, rename="camel"):
    resource_count_name: str = ""
    resource_memory_name: str = ""
    resource_memory_percentage_name: str = ""
    resource_core_name: str = ""
    resource_priority_name: str = ""
    overwrite_env: bool = False
    default_memory: int = 0
    default_cores: int = 0
    default_gpu_num: int = msgspec.field(default=0, name="defaultGPUNum")
    memory_factor: int = 0
    gpu_core_policy: str = ""
    runtime_class_name: str = ""


class _DeviceConfig(msgspec.Struct, frozen=True):
    nvidia: _Nvidia | None = None


def apply_device_config(profile: Profile, text: bytes, name: str) -> Profile:
    """Return the profile with the values of a device configuration; ``name`` is the file's, for messages.

    Raises ProfileError when the file cannot be read or configures nothing.
    """
    try:
        section = msgspec.yaml.decode(text, type=_DeviceConfig).nvidia
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ProfileError(f"{name}: {error}") from error
    if section is None:
        raise ProfileError(f"{name}: all configurations are empty")
    changes: dict[str, Any] = {
        "resources": ResourceNames(
            count=section.resource_count_name,
            memory=section.resource_memory_name,
            memory_percentage=section.resource_memory_percentage_name,
            cores=section.resource_core_name,
            priority=section.resource_priority_name,
        ),
        "request": RequestDefaults(
            default_cards=section.default_gpu_num,
            default_memory_mib=section.default_memory,
            default_cores=section.default_cores,
            memory_factor=section.memory_factor,
        ),
        "container": ContainerChanges(
            hide_cards=section.overwrite_env,
            core_policy=section.gpu_core_policy,
            runtime_class=section.runtime_class_name,
        ),
    }
    return msgspec.structs.replace(profile, **changes)
