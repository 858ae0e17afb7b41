"""What a container is told about its cards: environment and mounts (device plugin 10.3 and 10.4). Pure."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuloom.model.share import Share
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.errors import WireError
from gpuloom.wire.objects import Container
from gpuloom.wire.words import decode_bool

_PRELOAD = "/etc/ld.so.preload"
_LICENSE = "/tmp/license"  # noqa: S108 - where HAMi-core's validator looks inside the container
_VALIDATOR = "/usr/bin/vgpuvalidator"


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount; both are absolute paths, ``host_path`` one of the host."""

    container_path: str
    host_path: str
    read_only: bool


def build_environment(shares: Sequence[Share], settings: NodeSettings, *, cache_id: str) -> Mapping[str, str]:
    """Give the variables that show the cards to the container and limit it; `cache_id` names its shared region file."""
    environment = {
        "NVIDIA_VISIBLE_DEVICES": ",".join(dict.fromkeys(share.uuid for share in shares)),
        **{f"CUDA_DEVICE_MEMORY_LIMIT_{place}": f"{share.memory_mib}m" for place, share in enumerate(shares)},
        "CUDA_DEVICE_SM_LIMIT": str(shares[0].cores),
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{settings.hook_dir}/{cache_id}.cache",
    }
    if settings.device_memory_scaling > 1:
        environment["CUDA_OVERSUBSCRIBE"] = "true"
    if settings.lib_cuda_log_level:
        environment["LIBCUDA_LOG_LEVEL"] = settings.lib_cuda_log_level
    if settings.disable_core_limit:
        environment["GPU_CORE_UTILIZATION_POLICY"] = "disable"
    return environment


def name_cache_dir(pod_uid: str, container: str, settings: NodeSettings) -> str:
    """Name the host's directory that becomes the container's ``<hook path>/vgpu``."""
    return os.path.join(settings.hook_dir, "containers", f"{pod_uid}_{container}")  # noqa: PTH118 - the host's path


def build_mounts(
    container: Container, settings: NodeSettings, *, cache_dir: str, has_license: bool
) -> tuple[Mount, ...]:
    """List the limiter's mounts, a directory before what lies in it."""
    mounts = [
        Mount(settings.hook_dir, cache_dir, read_only=False),
        Mount(settings.library, settings.library, read_only=True),
        Mount(str(settings.lock_dir), str(settings.lock_dir), read_only=False),
    ]
    if not _is_control_disabled(container):
        mounts.append(Mount(_PRELOAD, f"{settings.hook_dir}/ld.so.preload", read_only=True))
    if has_license:
        mounts.append(Mount(_LICENSE, f"{settings.hook_dir}/license", read_only=True))
        mounts.append(Mount(_VALIDATOR, f"{settings.hook_dir}/vgpuvalidator", read_only=True))
    return tuple(mounts)


def _is_control_disabled(container: Container) -> bool:
    return any(variable.name == "CUDA_DISABLE_CONTROL" and _is_true(variable.value) for variable in container.env or ())


def _is_true(text: str) -> bool:
    try:
        return decode_bool(text)
    except WireError:
        return False
