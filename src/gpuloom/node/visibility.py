"""How a container gets to see its cards: one way per device list strategy (device plugin 10.3 and 13). Pure."""

from collections.abc import Iterable, Mapping, Sequence

from gpuloom.node.errors import AllocationError
from gpuloom.node.nvml import Gpu
from gpuloom.node.response import DeviceFile, HostFacts, Injection, Mount
from gpuloom.node.settings import InjectionSettings

CDI_VENDOR = "k8s.device-plugin.nvidia.com"
CONTROL_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_VOLUMES = "/var/run/nvidia-container-devices"


def show_cards(
    uuids: Sequence[str],
    settings: InjectionSettings,
    gpus: Mapping[str, Gpu],
    host: HostFacts,
    *,
    request_id: str,
) -> Injection:
    """Return what shows these cards; `gpus` are the node's by UUID, `request_id` makes the CDI annotation unique.

    Raises AllocationError for a card that the node does not have, if more than its UUID is needed.
    """
    ids = tuple(_identify(uuid, settings, gpus) for uuid in dict.fromkeys(uuids))
    injection = Injection()
    if settings.uses_cdi:
        injection += _name_cdi_devices(ids, settings, request_id)
    if settings.uses_only_cdi:
        return injection
    if "envvar" in settings.list_strategies:
        injection += Injection({_VISIBLE: ",".join(ids)})
    if "volume-mounts" in settings.list_strategies:
        mounts = tuple(Mount(f"{_VOLUMES}/{each}", "/dev/null", read_only=False) for each in ids)
        injection += Injection({_VISIBLE: _VOLUMES}, mounts)
    if settings.device_specs:
        injection += Injection(device_files=_list_device_files(uuids, settings, gpus, host))
    return injection + Injection(_name_driver_parts(settings))


def qualify(kind: str, name: str) -> str:
    """Return the qualified name of a CDI device."""
    return f"{CDI_VENDOR}/{kind}={name}"


def _identify(uuid: str, settings: InjectionSettings, gpus: Mapping[str, Gpu]) -> str:
    return uuid if settings.id_strategy == "uuid" else str(_find(uuid, gpus).index)


def _find(uuid: str, gpus: Mapping[str, Gpu]) -> Gpu:
    if uuid not in gpus:
        raise AllocationError(f"the scheduler chose card {uuid}, which this node does not offer")
    return gpus[uuid]


def _name_cdi_devices(ids: Sequence[str], settings: InjectionSettings, request_id: str) -> Injection:
    names = (
        *(qualify("gpu", each) for each in ids),
        *(qualify("imex-channel", str(channel)) for channel in settings.imex_channels),
        *(qualify(part, "all") for part in settings.driver_parts),
    )
    annotations = {}
    if "cdi-annotations" in settings.list_strategies:
        annotations[f"{settings.cdi_annotation_prefix}nvidia-device-plugin_{request_id}"] = ",".join(names)
    return Injection(annotations=annotations, cdi_devices=names if "cdi-cri" in settings.list_strategies else ())


def _list_device_files(
    uuids: Iterable[str], settings: InjectionSettings, gpus: Mapping[str, Gpu], host: HostFacts
) -> tuple[DeviceFile, ...]:
    minors = [_find_minor(_find(uuid, gpus)) for uuid in dict.fromkeys(uuids)]
    paths = (*host.control_files, *(f"/dev/nvidia{minor}" for minor in minors))
    return tuple(DeviceFile(path, f"{settings.dev_root.rstrip('/')}{path}") for path in paths)


def _find_minor(gpu: Gpu) -> int:
    if gpu.minor is None:
        raise AllocationError(f"card {gpu.uuid} has no device file that could be passed to a container")
    return gpu.minor


def _name_driver_parts(settings: InjectionSettings) -> dict[str, str]:
    environment = {f"NVIDIA_{part.upper()}": "enabled" for part in settings.driver_parts}
    if settings.imex_channels:
        environment["NVIDIA_IMEX_CHANNELS"] = ",".join(map(str, settings.imex_channels))
    return environment
