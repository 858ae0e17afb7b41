"""Programs in containers of containerd, with the environment, mounts and CDI devices that a device plugin answered.

What is made for them is gone when they are: containers, the namespace in containerd, files.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from gpuloom.local.selftest.cdi import CdiError, apply_edits, decode_spec, find_edits, merge_environment
from gpuloom.local.selftest.containerd import NAMESPACE, Containerd, NoContainersError
from gpuloom.local.selftest.grants import ContainerGrant
from gpuloom.local.selftest.processes import Running
from gpuloom.local.selftest.report import StepFailedError
from gpuloom.local.selftest.rootfs import make_rootfs, mount_all

PLACE = Path("/run")
"""Where the files of containers are: nothing may be laid over a folder that is laid over itself, as /tmp may be."""

_END_S = 30.0
_INSTEAD = "do without containers (--containerd off)"


class Containers:
    """Starts programs in containers of containerd, whose CDI names the files in `cdi_dir` explain.

    Leaving the ``async with`` block removes all; entering it what a self-test left that was killed.
    """

    def __init__(self, containerd: Containerd, cdi_dir: Path) -> None:
        self._containerd = containerd
        self._cdi_dir = cdi_dir
        self._directory = _name_directory(os.getpid())
        self._numbers = count(1)
        self._base: Mapping[str, Any] = {}

    async def __aenter__(self) -> Self:
        await self._sweep()
        self._base = msgspec.json.decode(await self._containerd.run("oci", "spec"))
        try:
            self._directory.mkdir(mode=0o700)
        except OSError as error:
            raise NoContainersError(f"{error.filename} cannot be made: {error.strerror}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._sweep()

    @asynccontextmanager
    async def start(
        self, given: ContainerGrant, program: Path, arguments: Sequence[str], errors: IO[bytes]
    ) -> AsyncIterator[Running]:
        """Run a program in Python in a container while the block runs."""
        name = f"{os.getpid()}-{next(self._numbers)}"
        directory = self._directory / name
        try:
            self._describe(name, given, program, arguments)
        except (CdiError, OSError) as error:
            raise StepFailedError(f"container {NAMESPACE}/{name} cannot be described: {error}; {_INSTEAD}") from error
        process = await asyncio.create_subprocess_exec(
            *self._containerd.build_command("run", "--rm"),
            f"--config={directory / 'config.json'}",
            f"--fifo-dir={directory}",
            f"--pid-file={directory / 'pid'}",
            name,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            # Ctrl-C is for the self-test, which ends its containers.
            start_new_session=True,
        )
        try:
            yield _RunningContainer(process, errors, name, directory / "pid")
        finally:
            await self._end(name, process)

    def _describe(self, name: str, given: ContainerGrant, program: Path, arguments: Sequence[str]) -> None:
        """Write the OCI specification of a container, and make its files."""
        specs = [decode_spec(path.name, path.read_bytes()) for path in sorted(self._cdi_dir.glob("*.json"))]
        edits = find_edits(given.cdi_devices, specs)
        directory = self._directory / name
        rootfs = make_rootfs(directory)
        shutil.copy(program, rootfs.root)
        process = self._base["process"]
        variables = [f"{key}={value}" for key, value in given.environment.items()]
        container = {
            **self._base,
            "root": {"path": str(rootfs.root)},
            "process": {
                **process,
                "args": [rootfs.python, "-I", f"/{program.name}", *arguments],
                "env": merge_environment(process.get("env", []), variables),
            },
            "mounts": [
                *self._base["mounts"],
                *rootfs.mounts,
                *mount_all(given.mounts, is_loaded=given.library is not None),
            ],
            "linux": {**self._base["linux"], "cgroupsPath": f"/{NAMESPACE}-{name}"},
        }
        (directory / "config.json").write_bytes(msgspec.json.encode(apply_edits(container, edits, _read_device)))

    async def _end(self, name: str, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            # It may have ended by itself meanwhile, or have not begun.
            with suppress(NoContainersError):
                await self._containerd.run("tasks", "kill", "--signal=SIGKILL", name)
        try:
            async with asyncio.timeout(_END_S):
                await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            await self._remove(name)

    async def _sweep(self) -> None:
        """Remove what this process made, and others that are gone."""
        with suppress(NoContainersError):
            for name in (await self._containerd.run("containers", "list", "--quiet")).split():
                if _is_left(name.partition("-")[0]):
                    await self._remove(name)
            # Fails as long as another self-test has containers.
            await self._containerd.run("namespaces", "remove", NAMESPACE)
        self._remove_folders()

    def _remove_folders(self) -> None:
        first = _name_directory("")
        for directory in PLACE.glob(f"{first.name}*"):
            if _is_left(directory.name.removeprefix(first.name)):
                shutil.rmtree(directory, ignore_errors=True)

    async def _remove(self, name: str) -> None:
        for kind in ("tasks", "containers"):
            force = ["--force"] if kind == "tasks" else []
            with suppress(NoContainersError):
                await self._containerd.run(kind, "delete", *force, name)


def _read_device(path: str) -> tuple[str, int, int]:
    status = Path(path).stat()
    kind = "b" if stat.S_ISBLK(status.st_mode) else "c"
    return kind, os.major(status.st_rdev), os.minor(status.st_rdev)


class _RunningContainer(Running):
    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes], name: str, pid_file: Path) -> None:
        super().__init__(process, errors)
        self._name = name
        self._pid_file = pid_file

    @property
    def pid(self) -> int:
        return int(self._pid_file.read_text())

    def explain_end(self, code: int) -> str:
        if self._pid_file.exists():
            return super().explain_end(code)
        return (
            f"containerd does not start container {NAMESPACE}/{self._name}: {self._read_tail()}; see what it logs, or "
            f"{_INSTEAD}"
        )


def _name_directory(maker: int | str) -> Path:
    return PLACE / f"{NAMESPACE}-{maker}"


def _is_left(maker: str) -> bool:
    """Tell whether what a process with this number made is to be removed."""
    return maker == str(os.getpid()) or (maker.isdecimal() and not Path(f"/proc/{maker}").exists())
