"""What the doctor of a machine is told: its own flags, or those of the device plugin that runs there."""

from collections.abc import Sequence
from dataclasses import dataclass

from cyclopts import CycloptsError

from gpuloom.cli.device_plugin_flags import DevicePluginFlags
from gpuloom.doctor.machine.files import read_plugin_flags


@dataclass(frozen=True, slots=True)
class MachineFlags:
    """The device plugin's view of its machine."""

    node_name: str
    cards: str
    flags: DevicePluginFlags


def adopt_flags(given: MachineFlags) -> MachineFlags:
    """Take the flags of the one device plugin that runs here, where none was given on the command line.

    So the doctor sees in the plugin's pod what the plugin sees.
    """
    words = read_plugin_flags(given.flags.place.host_root)
    from_environment = _parse(["--node-name=-"])
    if not words or from_environment is None or given.flags != from_environment.flags:
        return given
    running = _parse(words)
    if running is None:
        return given
    return MachineFlags(given.node_name or running.node_name, given.cards or running.cards, running.flags)


def _parse(words: Sequence[str]) -> MachineFlags | None:
    """Read flags as the device plugin does, environment included; None where it would refuse them."""
    from gpuloom.cli.commands import build_app  # noqa: PLC0415 - it names this command too

    try:
        _, bound, _ = build_app().parse_args(["device-plugin", *words], exit_on_error=False, print_error=False)
    except CycloptsError:
        return None
    told = bound.arguments
    return MachineFlags(told.get("node_name", ""), told.get("cards", ""), told.get("flags", DevicePluginFlags()))
