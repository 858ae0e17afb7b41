"""Programs as plain processes, for machines that cannot run them in containers."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO

from gpuloom.local.selftest.grants import ContainerGrant
from gpuloom.local.selftest.processes import Running

_LOCKS = Path("/tmp/vgpulock")  # noqa: S108 - the place that HAMi-core looks at


class PlainProcesses:
    """Starts programs as children of this process."""

    @asynccontextmanager
    async def start(
        self, given: ContainerGrant, program: Path, arguments: Sequence[str], errors: IO[bytes]
    ) -> AsyncIterator[Running]:
        """Run a program in Python while the block runs."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(program),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=_make_environment(given),
        )
        try:
            yield Running(process, errors)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


@contextmanager
def keep_lock_folder() -> Iterator[None]:
    """Have the folder in which HAMi-core locks, which a container gets mounted, while the block runs."""
    if _LOCKS.exists():
        yield
        return
    _LOCKS.mkdir(exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(_LOCKS, ignore_errors=True)


def _make_environment(given: ContainerGrant) -> dict[str, str]:
    """Return the environment of a process that stands for a container's.

    No container runtime shows it its card, so the driver's own variable does, and it preloads by LD_PRELOAD what a
    container finds in /etc/ld.so.preload. Nothing is mounted, so the region is named by its place on this machine.
    """
    environment = {**os.environ, **given.environment, "CUDA_VISIBLE_DEVICES": given.card}
    if given.library is not None:
        environment["LD_PRELOAD"] = str(given.library)
        environment["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = str(given.region)
    return environment
