"""Which way programs are started on this machine, and what that way needs."""

import shutil
from contextlib import AsyncExitStack
from pathlib import Path

from gpuloom.local.selftest.comparing import HOOK_DIR, LIBRARY, PRELOAD
from gpuloom.local.selftest.containerd import Containerd, NoContainersError, find_containerd
from gpuloom.local.selftest.containers import Containers
from gpuloom.local.selftest.grants import place_here
from gpuloom.node.cdi import write_specs
from gpuloom.node.errors import NodeError
from gpuloom.node.settings import InjectionSettings, NodeSettings

_HOOK = "nvidia-cdi-hook"


def name_by_cdi() -> InjectionSettings:
    """Return how containers are shown their cards by CDI alone."""
    hook = shutil.which(_HOOK) or InjectionSettings().cdi_hook_path
    return InjectionSettings(list_strategies=("cdi-cri",), cdi_hook_path=hook)


async def open_containers(stack: AsyncExitStack, choice: str, host: Path) -> tuple[Containers, Containerd]:
    """Return what starts containers until the stack is closed, for the node whose files are below `host`.

    Raises NoContainersError.
    """
    containerd = await find_containerd(choice)
    settings = NodeSettings(node_name="", host_root=host, injection=name_by_cdi())
    try:
        await write_specs(settings)
    except NodeError as error:
        raise NoContainersError(str(error)) from error
    cdi_dir = settings.on_this_side(settings.injection.cdi_dir)
    return await stack.enter_async_context(Containers(containerd, cdi_dir)), containerd


def install_limiter(limiter: Path, host: Path) -> None:
    """Put the limiter to where a node has it, and the file by which programs load it.

    Raises OSError.
    """
    shutil.copy(limiter, place_here(LIBRARY, host))
    place_here(f"{HOOK_DIR}/{Path(PRELOAD).name}", host).write_text(f"{LIBRARY}\n")
