"""The CDI specifications in which container runtimes look up names (device plugin 13); NVIDIA's tool writes them."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import structlog

from gpuloom.node.errors import ConfigurationError, KubeletError
from gpuloom.node.hostfiles import find_driver_root
from gpuloom.node.settings import NodeSettings
from gpuloom.node.visibility import CDI_VENDOR

_TOOL = "nvidia-ctk"
_DEADLINE_S = 60.0
_DEATH_S = 1.0
_log = structlog.get_logger(__name__)


async def write_specs(settings: NodeSettings) -> None:
    """Write the specifications of the cards and of the driver's parts, if containers are shown CDI devices.

    Raises ConfigurationError when the tool is missing, KubeletError when it fails; the latter is tried again.
    """
    if not settings.injection.uses_cdi:
        return
    directory = settings.on_this_side(settings.injection.cdi_dir)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KubeletError(f"directory {directory} for CDI specifications: {error.strerror}") from error
    for command in build_commands(settings):
        await _run(command)
    _log.info("CDI specifications written", directory=settings.injection.cdi_dir)


def build_commands(settings: NodeSettings) -> Iterator[list[str]]:
    """Return the command lines for every specification: that of the cards, and one for each part of the driver.

    If this process sees the driver in another place than the host, a second command for each specification sets the
    host's paths.
    """
    injection = settings.injection
    modes = {"gpu": f"--device-name-strategy={injection.id_strategy}"}
    modes |= {part: f"--mode={part}" for part in injection.driver_parts}
    if injection.imex_channels:
        modes["imex-channel"] = "--mode=imex"
    # The tool names the driver's place as in the file system that it runs in.
    mounted = find_driver_root(injection)
    driver_root = str(mounted or injection.driver_root)
    dev_root = driver_root if injection.dev_root == injection.driver_root else injection.dev_root
    for kind, mode in modes.items():
        target = settings.on_this_side(f"{injection.cdi_dir}/{CDI_VENDOR}-{kind}.json")
        yield [
            *(_TOOL, "cdi", "generate"),
            f"--output={target}",
            "--format=json",
            f"--vendor={CDI_VENDOR}",
            f"--class={kind}",
            f"--nvidia-cdi-hook-path={injection.cdi_hook_path}",
            f"--driver-root={driver_root}",
            f"--dev-root={dev_root}",
            mode,
        ]
        if mounted:
            roots = f"--from={driver_root}", f"--to={injection.driver_root}", "--relative-to=host"
            yield [*(_TOOL, "cdi", "transform", "root"), *roots, f"--input={target}", f"--output={target}"]


async def _run(command: list[str]) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{_TOOL} is not installed, which the CDI device list strategies need: install the NVIDIA container "
            "toolkit, or choose the strategy envvar"
        ) from error
    except OSError as error:
        raise KubeletError(f"{_TOOL} cannot be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(_DEADLINE_S):
            _, complaint = await process.communicate()
    except TimeoutError as error:
        raise KubeletError(f"{_TOOL} did not write a CDI specification within {_DEADLINE_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            # A process that hangs in the kernel, as a driver makes it, does not die.
            with suppress(TimeoutError):
                async with asyncio.timeout(_DEATH_S):
                    await process.wait()
    if process.returncode:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:]
        raise KubeletError(f"{_TOOL} cannot write a CDI specification: {''.join(last)}")
