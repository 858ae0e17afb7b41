"""The played device plugins of all nodes in a process of their own, so that nothing else of a benchmark delays them.

``python benchmarks/pluginprocess.py KUBECONFIG [--dummy] [--locks]`` plays them and prints two lines for each pod:
``bound`` and when it was seen bound, ``served`` and when it was served, in seconds of the machine's monotonic clock.
"""

import asyncio
import sys
from typing import Self

import uvloop

from gpuloom.kube import KubeClient, load_kubeconfig
from harness.playedplugins import PlayedPlugins


class PluginProcess:
    """Such a process, as an async context manager.

    Attributes: `pid`, `bound_s` and `served_s` (when pods were seen bound, and when they were served).

    With `dummy`, bound pods are served whatever their phase, with `locks` by two writes, as `PlayedPlugins` has it.
    """

    def __init__(self, kubeconfig: str, *, dummy: bool = False, locks: bool = False) -> None:
        """Prepare a process that reaches the API server by this kubeconfig."""
        self.bound_s: list[float] = []
        self.served_s: list[float] = []
        self.pid = 0
        chosen = [flag for flag, is_on in (("--dummy", dummy), ("--locks", locks)) if is_on]
        self._command = (sys.executable, __file__, kubeconfig, *chosen)
        self._progress = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE)
        self.pid = self._process.pid
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()
        await self._reading

    async def wait_served(self, pods: int) -> None:
        """Wait until so many pods were served. Raise RuntimeError when the process has ended before."""
        while len(self.served_s) < pods:
            if self._reading.done():
                raise RuntimeError(f"the played plugins ended after {len(self.served_s)} of {pods} pods")
            self._progress.clear()
            await self._progress.wait()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                word, time_s = line.split()
                times_s = self.served_s if word == b"served" else self.bound_s
                times_s.append(float(time_s))
                self._progress.set()
        finally:
            self._progress.set()


async def play(kubeconfig: str, *, dummy: bool, locks: bool) -> None:
    """Play the plugins until the process is ended."""
    async with (
        KubeClient(load_kubeconfig(kubeconfig)) as client,
        PlayedPlugins(client, dummy=dummy, locks=locks) as plugins,
    ):
        bound = served = 0
        while True:
            await plugins.wait_served(served + 1)
            lines = [f"bound {time_s}\n" for time_s in plugins.taken_s[bound:]]
            lines += [f"served {time_s}\n" for time_s in plugins.served_s[served:]]
            bound, served = len(plugins.taken_s), len(plugins.served_s)
            sys.stdout.write("".join(lines))
            sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(play(sys.argv[1], dummy="--dummy" in sys.argv[2:], locks="--locks" in sys.argv[2:]))
