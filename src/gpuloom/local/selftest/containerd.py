"""Whether this machine can run the programs in containers: containerd, its program ``ctr``, and CDI."""

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

AUTO, OFF = "auto", "off"
NAMESPACE = "gpuloom-selftest"
SOCKETS = (Path("/run/containerd/containerd.sock"), Path("/run/k3s/containerd/containerd.sock"))
_TOOLS = {
    "ctr": "comes with containerd",
    "nvidia-ctk": "describes cards to containers (CDI); it comes with the NVIDIA container toolkit",
}
_ANSWER_S = 60.0
_TAIL_CHARACTERS = 300


class NoContainersError(Exception):
    """This machine cannot run programs in containers; the message says why."""


@dataclass(frozen=True, slots=True)
class Containerd:
    """A containerd that answers: its socket and its version."""

    socket: Path
    version: str = ""

    async def run(self, *arguments: str) -> str:
        """Return what ``ctr`` prints about what belongs to the self-test.

        Raises NoContainersError.
        """
        return await ask(*self.build_command(*arguments))

    def build_command(self, *arguments: str) -> list[str]:
        """Return the command line of ``ctr`` about what belongs to the self-test."""
        return ["ctr", f"--address={self.socket}", f"--namespace={NAMESPACE}", *arguments]


async def find_containerd(choice: str) -> Containerd:
    """Return the containerd at a socket, or for ``auto`` at the first of the usual ones.

    Raises NoContainersError.
    """
    if choice == OFF:
        raise NoContainersError("--containerd is off")
    socket = _find_socket(choice)
    if os.geteuid() != 0:
        raise NoContainersError("only root may start containers, and this user is another")
    for tool, use in _TOOLS.items():
        if shutil.which(tool) is None:
            raise NoContainersError(f"{tool} is not in the PATH, which {use}")
    return Containerd(socket, parse_version(await Containerd(socket).run("version")))


def parse_version(text: str) -> str:
    """Return the server's version from what ``ctr version`` prints.

    Raises NoContainersError.
    """
    found = re.search(r"^Server:$.*?^\s*Version:\s*v?(\S+)", text, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        raise NoContainersError(f"ctr version does not tell the server's: {_shorten(text)}")
    return found[1]


async def ask(*command: str) -> str:
    """Return what a program prints.

    Raises NoContainersError when it fails.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_ANSWER_S):
            output, complaint = await process.communicate()
    except TimeoutError as error:
        raise NoContainersError(f"{_name(command)} did not answer within {_ANSWER_S:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise NoContainersError(f"{_name(command)} fails: {_shorten(complaint.decode(errors='replace'))}")
    return output.decode(errors="replace")


def _find_socket(choice: str) -> Path:
    candidates = SOCKETS if choice == AUTO else (Path(choice),)
    for socket in candidates:
        if socket.is_socket():
            return socket
    raise NoContainersError(f"there is no containerd at {' or '.join(map(str, candidates))}")


def _name(command: Sequence[str]) -> str:
    return " ".join(word for word in command if not word.startswith("--namespace"))


def _shorten(text: str) -> str:
    return " ".join(text.split())[-_TAIL_CHARACTERS:]
