"""What a container gets for its cards: environment, mounts, files, names (device plugin 10.3, 10.4). Pure."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuloom.model.share import Share
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.errors import WireError
from gpuloom.wire.fullpods import EnvVar, FullContainer
from gpuloom.wire.words import decode_bool

_PRELOAD = "/etc/ld.so.preload"
_LICENSE = "/tmp/license"  # noqa: S108 - where HAMi-core's validator looks inside the container
_VALIDATOR = "/usr/bin/vgpuvalidator"
_UID = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_CONTAINER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
LOCKS_MARK = ".locks"
"""The end of the name of a container's lock directory: no container's name has a dot."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount; both are absolute paths, ``host_path`` one of the host."""

    container_path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """A device file that the container may read and write; ``host_path`` is a path of the host."""

    container_path: str
    host_path: str


@dataclass(frozen=True, slots=True)
class Injection:
    """What one container gets; parts can be added."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    device_files: tuple[DeviceFile, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()

    def __add__(self, other: "Injection") -> "Injection":
        """Join two parts; the second part wins for equal keys."""
        return Injection(
            {**self.environment, **other.environment},
            self.mounts + other.mounts,
            self.device_files + other.device_files,
            {**self.annotations, **other.annotations},
            self.cdi_devices + other.cdi_devices,
        )


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the plan of an allocation needs of the host's files; paths are those of the host."""

    library: str
    has_license: bool = False
    control_files: tuple[str, ...] = ()


def build_limiter(
    container: FullContainer,
    shares: Sequence[Share],
    settings: NodeSettings,
    host: HostFacts,
    *,
    cache: tuple[str, str],
    is_loaded: bool = True,
) -> Injection:
    """Return what limits a container to its shares; `cache` is its directory on the host and its region file's id.

    Programs load the limiter if `is_loaded` and the container does not refuse it.
    """
    cache_dir, cache_id = cache
    is_loaded = is_loaded and not any(map(disables_control, container.env or ()))
    return Injection(
        environment=_build_environment(shares, settings, cache_id),
        mounts=_build_mounts(settings, host, cache_dir, is_loaded=is_loaded),
    )


def name_cache_dir(pod_uid: str, container: str, settings: NodeSettings) -> str:
    """Return the host's directory that becomes the container's ``<hook path>/vgpu``.

    Raises WireError for names that Kubernetes does not allow: they could lead to another place.
    """
    if not _UID.fullmatch(pod_uid):
        raise WireError(f"{pod_uid[:80]!r} is no UID of a pod")
    if not _CONTAINER.fullmatch(container):
        raise WireError(f"{container[:80]!r} is no name of a container")
    return os.path.join(settings.containers_dir, f"{pod_uid}_{container}")  # noqa: PTH118 - the host's path


def find_lock_dir(cache_dir: str, settings: NodeSettings) -> str:
    """Return the host's directory that becomes the lock directory of the container with this other directory.

    It stands beside that one: the container could put a link into its own directory (decision 022).
    """
    return str(settings.lock_dir) if settings.node_wide_locks else f"{cache_dir}{LOCKS_MARK}"


def _build_environment(shares: Sequence[Share], settings: NodeSettings, cache_id: str) -> dict[str, str]:
    environment = {
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


def _build_mounts(settings: NodeSettings, host: HostFacts, cache_dir: str, *, is_loaded: bool) -> tuple[Mount, ...]:
    """Return the limiter's mounts, a directory before what is in it."""
    mounts = [
        Mount(settings.hook_dir, cache_dir, read_only=False),
        Mount(settings.library, host.library, read_only=True),
        Mount(str(settings.lock_dir), find_lock_dir(cache_dir, settings), read_only=False),
    ]
    if is_loaded:
        mounts.append(Mount(_PRELOAD, f"{settings.hook_dir}/ld.so.preload", read_only=True))
    if host.has_license:
        mounts.append(Mount(_LICENSE, f"{settings.hook_dir}/license", read_only=True))
        mounts.append(Mount(_VALIDATOR, f"{settings.hook_dir}/vgpuvalidator", read_only=True))
    return tuple(mounts)


def disables_control(variable: EnvVar) -> bool:
    """Whether a variable of a container says that its programs do not load the limiter."""
    return variable.name == "CUDA_DISABLE_CONTROL" and _is_true(variable.value)


def _is_true(text: str) -> bool:
    try:
        return decode_bool(text)
    except WireError:
        return False
