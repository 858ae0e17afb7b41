"""Reads how containerd, CRI-O and Docker are configured, below a root directory."""

import json
import mmap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuloom.doctor.checks import Unseen
from gpuloom.doctor.machine.facts import Handler, RuntimeConfig
from gpuloom.doctor.machine.files import is_file, tell_closed

_PLAIN = "etc/containerd/config.toml"
"""Of containerd by itself; distributions have it inside of a program of their own."""
_CONTAINERD = (
    _PLAIN,
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "var/snap/microk8s/current/args/containerd.toml",
    "etc/k0s/containerd.toml",
)
_PACKAGE = b"github.com/containerd/containerd/"
_CRIO = "etc/crio/crio.conf"
_DOCKER = "etc/docker/daemon.json"
_BINARIES = ("usr/bin", "usr/local/bin", "usr/sbin", "usr/local/nvidia/toolkit", "bin")
_CRI_PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
_FIRST_VERSION_OF_2 = 3
"""Of the configuration file: containerd 2 brought it, and still reads older ones."""


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
            tables += [_load(tomllib.loads, other) for other in _imports(root, path, tables[0])]
            disabled = _read_list(tables[0], "disabled_plugins")
        except ValueError as error:
            yield RuntimeConfig(f"/{name}", error=str(error))
            continue
        if "cri" not in disabled:
            yield _judge_tables(root, name, tables)


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
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


def _imports(root: Path, path: Path, table: Mapping[str, Any]) -> Iterator[Path]:
    """Give the files that a configuration adds to itself; relative names count from its own folder."""
    for pattern in _read_list(table, "imports"):
        folder = root if pattern.startswith("/") else path.parent
        yield from sorted(folder.glob(pattern.lstrip("/")))


def _read_list(table: Mapping[str, Any], key: str) -> list[str]:
    """Read a list of texts.

    Raises ValueError when it is anything else, which containerd does not read either.
    """
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{key} is no list of texts")
    return found


def _judge_tables(root: Path, name: str, tables: list[dict[str, Any]]) -> RuntimeConfig:
    default, has_cdi, handlers = "", None, {}
    for table in tables:
        for plugin in _CRI_PLUGINS:
            section = _dig(table, "plugins", plugin)
            default = _dig(section, "containerd").get("default_runtime_name", default)
            has_cdi = section.get("enable_cdi", has_cdi)
            for handler, told in _dig(section, "containerd", "runtimes").items():
                handlers[handler] = _make_containerd_handler(root, handler, _dig(told))
    version = _find_version(root, name, tables[0])
    # Since containerd 2.0 CDI is on unless the configuration switches it off.
    is_on = True if has_cdi is None and version > 1 else has_cdi
    return RuntimeConfig(f"/{name}", str(default), tuple(handlers.values()), is_on, version)


def _make_containerd_handler(root: Path, name: str, told: Mapping[str, Any]) -> Handler:
    annotations = told.get("container_annotations")
    patterns = tuple(map(str, annotations)) if isinstance(annotations, list) else ()
    return _make_handler(root, name, _dig(told, "options").get("BinaryName", ""), patterns)


def _find_version(root: Path, name: str, table: Mapping[str, Any]) -> int:
    """Tell containerd's major version, 1 or 2; 0 where neither its configuration nor its program tells."""
    told = table.get("version")
    if isinstance(told, int) and told >= _FIRST_VERSION_OF_2:
        return 2
    programs = [root / folder / "containerd" for folder in _BINARIES] if name == _PLAIN else []
    versions = {version for program in programs if (version := _read_version(program))}
    return versions.pop() if len(versions) == 1 else 0


def _read_version(program: Path) -> int:
    """Tell a program of containerd 1 from one of containerd 2 by the names of the packages that it is made of."""
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if text.find(_PACKAGE) < 0:
                return 0
            return 2 if text.find(_PACKAGE + b"v2/") >= 0 else 1
    except (OSError, ValueError):
        return 0


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


def _make_handler(root: Path, name: str, binary: object, annotations: tuple[str, ...] | None = None) -> Handler:
    text = binary if isinstance(binary, str) else ""
    places = [text.lstrip("/")] if "/" in text else [f"{folder}/{text}" for folder in _BINARIES]
    return Handler(name, text, not text or any(is_file(root / place) for place in places), annotations)


def _dig(table: object, *keys: str) -> Mapping[str, Any]:
    """Go down through tables; whatever is missing or of another shape is empty."""
    for key in keys:
        table = table.get(key) if isinstance(table, Mapping) else None
    return table if isinstance(table, Mapping) else {}
