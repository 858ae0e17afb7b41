"""What the doctor of a machine is told: its own flags, or those of the device plugin that runs there."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cyclopts import CycloptsError

from gpuloom.cli.device_plugin_flags import DevicePluginFlags
from gpuloom.doctor.machine.innerfile import InnerFile
from gpuloom.doctor.machine.processes import RunningPlugin, find_plugin
from gpuloom.node.simulated import shipped_machines

_NAMELESS = {"NodeName": "-"}
"""The device plugin wants a name, a doctor does not: the variable that counts least."""


@dataclass(frozen=True, slots=True)
class MachineFlags:
    """The device plugin's view of its machine; ``cards`` is a path where they are in a file of its container."""

    node_name: str
    cards: str | Path
    flags: DevicePluginFlags


def adopt_flags(given: MachineFlags) -> MachineFlags:
    """Take flags, variables and files of the one device plugin that runs here, where the command line has no flag.

    So the doctor sees what the plugin sees, in its pod and on its node.
    """
    host_root = given.flags.place.host_root
    plugin = find_plugin(host_root)
    from_environment = _parse([], os.environ)
    if plugin is None or from_environment is None or given.flags != from_environment.flags:
        return given
    running = _parse(plugin.flags, os.environ if plugin.variables is None else plugin.variables)
    if running is None:
        return given
    if not plugin.shares_files():
        running = _look_into(plugin, running, host_root)
    return replace(running, node_name=given.node_name or running.node_name, cards=given.cards or running.cards)


def _look_into(plugin: RunningPlugin, running: MachineFlags, host_root: Path) -> MachineFlags:
    """Name the files of a plugin in a container as this process finds them, and the host as it sees that itself."""
    place, cards = running.flags.place, running.cards
    place = replace(
        place,
        config_file=place.config_file and InnerFile.below(plugin.root, place.config_file),
        node_config_file=InnerFile.below(plugin.root, place.node_config_file),
        # It says nothing about the machine.
        vendor_dir=None,
        host_root=host_root,
    )
    if cards and cards not in shipped_machines():
        cards = InnerFile.below(plugin.root, Path(cards))
    return replace(running, cards=cards, flags=replace(running.flags, place=place))


def _parse(words: Sequence[str], variables: Mapping[str, str]) -> MachineFlags | None:
    """Read flags as a device plugin with these variables does; None where it would refuse them."""
    from gpuloom.cli.commands import build_app  # noqa: PLC0415 - it names this command too

    app = build_app()
    known = {
        name for one in app["device-plugin"].assemble_argument_collection() for name in one.parameter.env_var or ()
    }
    try:
        with _as_environment(_NAMELESS | {name: text for name, text in variables.items() if name in known}):
            _, bound, _ = app.parse_args(["device-plugin", *words], exit_on_error=False, print_error=False)
    except CycloptsError:
        return None
    told = bound.arguments
    name = told.get("node_name", "")
    name = "" if name in _NAMELESS.values() else name
    return MachineFlags(name, told.get("cards", ""), told.get("flags", DevicePluginFlags()))


@contextmanager
def _as_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Show cyclopts, which looks there itself, these variables alone."""
    own = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(own)
