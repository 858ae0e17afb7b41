"""Looks up CDI names in NVIDIA's descriptions, and edits a container's OCI specification as these say. Pure.

Container runtimes do the same for Kubernetes; ``ctr`` does not before containerd 2.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

Stat = Callable[[str], tuple[str, int, int]]
"""Tells type (``c`` or ``b``), major and minor number of a device file."""


class CdiError(Exception):
    """A name or a description cannot be used; the message names it."""


class _Struct(msgspec.Struct, frozen=True, rename="camel"):
    pass


class DeviceNode(_Struct, frozen=True):
    """A device file; what is not told is that of the machine's file."""

    path: str
    host_path: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    file_mode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None


class CdiMount(_Struct, frozen=True):
    """A mount of the machine's files."""

    host_path: str
    container_path: str
    options: list[str] = []
    type: str = "bind"


class Hook(_Struct, frozen=True, omit_defaults=True):
    """A program that the runtime calls on the way."""

    hook_name: Literal["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"]
    path: str
    args: list[str] = []
    env: list[str] = []
    timeout: int | None = None


class Edits(_Struct, frozen=True):
    """What is added to a container."""

    env: list[str] = []
    device_nodes: list[DeviceNode] = []
    mounts: list[CdiMount] = []
    hooks: list[Hook] = []
    additional_gids: list[int] = []


class CdiDevice(_Struct, frozen=True):
    """What one name means."""

    name: str
    container_edits: Edits = Edits()


class CdiDescription(_Struct, frozen=True):
    """The devices of one kind, and what a container with any of them gets."""

    kind: str
    devices: list[CdiDevice]
    container_edits: Edits = Edits()


def decode_spec(name: str, text: bytes) -> CdiDescription:
    """Return the description in the file `name`.

    Raises CdiError.
    """
    try:
        return msgspec.json.decode(text, type=CdiDescription)
    except msgspec.DecodeError as error:
        raise CdiError(f"CDI specification {name}: {error}") from error


def find_edits(names: Iterable[str], specs: Iterable[CdiDescription]) -> Sequence[Edits]:
    """Return the edits for devices, those of all devices of a kind first and once.

    Raises CdiError for a name that is in no specification.
    """
    known = {f"{spec.kind}={device.name}": (spec, device) for spec in specs for device in spec.devices}
    kinds: set[str] = set()
    found: list[Edits] = []
    for name in names:
        if name not in known:
            raise CdiError(f"no CDI specification has {name}")
        spec, device = known[name]
        if spec.kind not in kinds:
            kinds.add(spec.kind)
            found.append(spec.container_edits)
        found.append(device.container_edits)
    return found


def apply_edits(container: Mapping[str, Any], edits: Iterable[Edits], stat: Stat) -> dict[str, Any]:
    """Return a container's OCI specification with edits.

    Raises OSError for a device file that is not there.
    """
    process, linux = dict(container["process"]), dict(container["linux"])
    user, hooks = dict(process.get("user", {})), dict(container.get("hooks", {}))
    resources = dict(linux.get("resources", {}))
    mounts = list(container["mounts"])
    for edit in edits:
        process["env"] = merge_environment(process.get("env", []), edit.env)
        mounts += [
            {"destination": mount.container_path, "source": mount.host_path}
            | {"type": mount.type, "options": mount.options}
            for mount in edit.mounts
        ]
        for node in edit.device_nodes:
            device, rule = _add_device(node, stat)
            linux["devices"] = [*linux.get("devices", []), device]
            resources["devices"] = [*resources.get("devices", []), rule]
        for hook in edit.hooks:
            told = {key: value for key, value in msgspec.to_builtins(hook).items() if key != "hookName"}
            hooks[hook.hook_name] = [*hooks.get(hook.hook_name, []), told]
        if edit.additional_gids:
            user["additionalGids"] = [*user.get("additionalGids", []), *edit.additional_gids]
    # What is mounted into another mount comes after it.
    mounts.sort(key=lambda mount: mount["destination"].rstrip("/").count("/"))
    return {
        **container,
        "process": {**process, "user": user},
        "mounts": mounts,
        "hooks": hooks,
        "linux": {**linux, "resources": resources},
    }


def merge_environment(first: Iterable[str], then: Iterable[str]) -> list[str]:
    """Return variables, those of `then` instead of those of the same name."""
    merged = {variable.partition("=")[0]: variable for variable in (*first, *then)}
    return list(merged.values())


def _add_device(node: DeviceNode, stat: Stat) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a device file, and the rule that lets the container use it."""
    kind, major, minor = node.type, node.major, node.minor
    if not kind or not (major or minor):
        kind, major, minor = stat(node.host_path or node.path)
    numbers = {"type": kind, "major": major, "minor": minor}
    optional = {"fileMode": node.file_mode, "uid": node.uid, "gid": node.gid}
    device = {"path": node.path, **numbers, **{key: value for key, value in optional.items() if value is not None}}
    return device, {"allow": True, **numbers, "access": node.permissions or "rwm"}
