"""Reads how containerd, CRI-O and Docker are configured, below a root directory."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.machine.facts import Handler, RuntimeConfig
from gpuloom.doctor.machine.files import is_file, tell_closed

_CONTAINERD = (
    "etc/containerd/config.toml",
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "var/snap/microk8s/current/args/containerd.toml",
    "etc/k0s/containerd.toml",
)
_CRIO = "etc/crio/crio.conf"
_DOCKER = "etc/docker/daemon.json"
_BINARIES = ("usr/bin", "usr/local/bin", "usr/sbin", "usr/local/nvidia/toolkit", "bin")
_CRI_PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")


def read_runtimes(root: Path) -> tuple[RuntimeConfig, ...] | Unseen:
    """Read the configurations of the runtimes that a kubelet may use on this machine."""
    try:
        found = tuple(_read_containerd(root)) + tuple(_read_crio(root))
        found = found or tuple(_read_docker(root))
    except OSError as error:
        return tell_closed(error)
    if found:
        return found
    return Unseen(
        f"no configuration of containerd, CRI-O or Docker is below {root}: run the doctor on the node itself, or mount "
        "the node's file system and name its place with --host-root"
    )


def _read_containerd(root: Path) -> Iterator[RuntimeConfig]:
    for name in _CONTAINERD:
        path = root / name
        if not is_file(path):
            continue
        try:
            tables = [_load(tomllib.loads, path)]
            tables += [_load(tomllib.loads, other) for other in _imports(root, tables[0])]
        except ValueError as error:
            yield RuntimeConfig(f"/{name}", error=str(error))
            continue
        if "cri" not in (tables[0].get("disabled_plugins") or ()):
            yield _judge_tables(root, f"/{name}", tables)


def _load(parse: Callable[[str], Any], path: Path) -> Any:
    """Read a file.

    Raises ValueError when it cannot be used, and PermissionError when that is only this account's trouble.
    """
    try:
        return parse(path.read_text())
    except PermissionError:
        raise
    except OSError as error:
        raise ValueError(str(error)) from error


def _imports(root: Path, table: Mapping[str, Any]) -> Iterator[Path]:
    for pattern in table.get("imports") or ():
        if isinstance(pattern, str) and pattern.startswith("/"):
            yield from sorted(root.glob(pattern.lstrip("/")))


def _judge_tables(root: Path, path: str, tables: list[dict[str, Any]]) -> RuntimeConfig:
    default, has_cdi, handlers = "", None, {}
    for table in tables:
        for plugin in _CRI_PLUGINS:
            section = _dig(table, "plugins", plugin)
            default = _dig(section, "containerd").get("default_runtime_name", default)
            has_cdi = section.get("enable_cdi", has_cdi)
            for name, handler in _dig(section, "containerd", "runtimes").items():
                handlers[name] = _make_handler(root, name, _dig(handler, "options").get("BinaryName", ""))
    return RuntimeConfig(path, str(default), tuple(handlers.values()), has_cdi)


def _read_crio(root: Path) -> Iterator[RuntimeConfig]:
    files = [root / _CRIO, *sorted((root / _CRIO).with_suffix(".conf.d").glob("*"))]
    files = [file for file in files if is_file(file)]
    if not files:
        return
    default, handlers = "", {}
    for file in files:
        try:
            section = _dig(_load(tomllib.loads, file), "crio", "runtime")
        except ValueError as error:
            yield RuntimeConfig(f"/{file.relative_to(root)}", error=str(error))
            return
        default = section.get("default_runtime", default)
        for name, handler in _dig(section, "runtimes").items():
            handlers[name] = _make_handler(root, name, _dig(handler).get("runtime_path", ""))
    yield RuntimeConfig(f"/{_CRIO}", str(default), tuple(handlers.values()))


def _read_docker(root: Path) -> Iterator[RuntimeConfig]:
    path = root / _DOCKER
    if not is_file(path):
        return
    try:
        table = _dig(_load(json.loads, path))
    except ValueError as error:
        yield RuntimeConfig(f"/{_DOCKER}", error=str(error))
        return
    runtimes = _dig(table, "runtimes").items()
    handlers = tuple(_make_handler(root, name, _dig(handler).get("path", "")) for name, handler in runtimes)
    yield RuntimeConfig(f"/{_DOCKER}", str(table.get("default-runtime", "")), handlers)


def _make_handler(root: Path, name: str, binary: object) -> Handler:
    text = binary if isinstance(binary, str) else ""
    places = [text.lstrip("/")] if "/" in text else [f"{folder}/{text}" for folder in _BINARIES]
    return Handler(name, text, not text or any(is_file(root / place) for place in places))


def _dig(table: object, *keys: str) -> Mapping[str, Any]:
    """Go down through tables; whatever is missing or of another shape is empty."""
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table if isinstance(table, Mapping) else {}
