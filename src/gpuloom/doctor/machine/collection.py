"""Collects the facts of this machine, as its device plugin would see them."""

import asyncio
import platform
import stat
from dataclasses import dataclass
from pathlib import Path

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.machine.facts import DriverFailure, MachineFacts, SocketState
from gpuloom.doctor.machine.files import (
    read_cdi,
    read_device_files,
    read_kernel_driver,
    read_library,
    read_mode,
    read_registered,
)
from gpuloom.doctor.machine.processes import read_plugins
from gpuloom.doctor.machine.runtimeconfig import read_runtimes
from gpuloom.node.configuration import configure
from gpuloom.node.errors import CardReadError, ConfigurationError, DriverMissingError
from gpuloom.node.nvml import Gpu, Nvml
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.device_config import decode_device_config
from gpuloom.wire.errors import WireError
from gpuloom.wire.node_config import decode_node_config

_ANSWER_S = 2.0


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the device plugin of this machine is told: flags, and the two files that may change them."""

    flags: NodeSettings
    device_config: Path | None = None
    node_config: Path | None = None


async def collect_machine(configuration: Configuration, nvml: Nvml, *, is_simulated: bool = False) -> MachineFacts:
    """Look at this machine."""
    settings, settings_error = _make_settings(configuration)
    root = settings.host_root
    kubelet, pod_resources, plugin, cards = await asyncio.gather(
        read_socket(settings.kubelet_socket),
        read_socket(settings.pod_resources_socket),
        read_socket(settings.plugin_socket),
        _read_cards(nvml),
    )
    return MachineFacts(
        machine=platform.machine(),
        settings=settings,
        settings_error=settings_error,
        node_entry_error=_check_node_entry(configuration),
        runtime_class=_read_runtime_class(configuration.device_config),
        is_simulated=is_simulated,
        kernel_driver=read_kernel_driver(root),
        cards=cards,
        device_files=read_device_files(root, settings.injection.dev_root),
        runtimes=read_runtimes(root),
        kubelet=kubelet,
        pod_resources=pod_resources,
        plugin=plugin,
        registered=read_registered(settings),
        plugins=read_plugins(root),
        library=read_library(settings),
        lock_dir_mode=read_mode(settings.on_this_side(settings.lock_dir)),
        cdi=read_cdi(settings),
    )


def looks_like_node(settings: NodeSettings) -> bool:
    """Tell whether a kubelet works on this machine, or did."""
    try:
        return stat.S_ISDIR(settings.plugins_dir.stat().st_mode)
    except PermissionError:
        # A kubelet closes its folder to everybody else.
        return True
    except OSError:
        return False


async def read_socket(path: Path) -> SocketState:
    """Find out whether somebody answers at a Unix socket."""
    try:
        if not _is_socket(path):
            return SocketState.OTHER
        async with asyncio.timeout(_ANSWER_S):
            _, writer = await asyncio.open_unix_connection(str(path))
    except (FileNotFoundError, NotADirectoryError):
        return SocketState.MISSING
    except PermissionError:
        return SocketState.HIDDEN
    except (OSError, TimeoutError):
        return SocketState.CLOSED
    writer.close()
    return SocketState.ANSWERS


def _is_socket(path: Path) -> bool:
    return stat.S_ISSOCK(path.stat().st_mode)


async def _read_cards(nvml: Nvml) -> tuple[Gpu, ...] | DriverFailure:
    try:
        return await nvml.read_gpus()
    except DriverMissingError as error:
        return DriverFailure(str(error), is_missing=True)
    except CardReadError as error:
        return DriverFailure(str(error), is_missing=False)


def _make_settings(configuration: Configuration) -> tuple[NodeSettings, str | Unseen]:
    """Make the settings as the device plugin does; where that fails, those of the flags and the reason."""
    try:
        return configure(configuration.flags, configuration.device_config, configuration.node_config), ""
    except ConfigurationError as error:
        is_closed = isinstance(error.__cause__, PermissionError)
        return configuration.flags, _ask_for_root(error) if is_closed else str(error)


def _check_node_entry(configuration: Configuration) -> str | Unseen:
    path = configuration.node_config
    if path is None:
        return ""
    try:
        decode_node_config(path.read_bytes(), configuration.flags.node_name)
    except FileNotFoundError:
        return ""
    except PermissionError as error:
        return _ask_for_root(f"{path}: {error.strerror}")
    except OSError as error:
        return f"{path}: {error.strerror}"
    except WireError as error:
        return f"{path}: {error}"
    return ""


def _read_runtime_class(path: Path | None) -> str | Unseen:
    if path is None:
        return Unseen("no device configuration is named, which --config-file does")
    try:
        return decode_device_config(path.read_bytes()).runtime_class_name
    except OSError as error:
        return Unseen(f"device configuration {path}: {error.strerror}")
    except WireError as error:
        return Unseen(f"device configuration {path}: {error}")


def _ask_for_root(what: object) -> Unseen:
    return Unseen(f"{what}: run the doctor as root")
