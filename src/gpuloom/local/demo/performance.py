"""The demo's run: builds the cluster, plays the scenes, shows the picture, and leaves nothing behind."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live

from gpuloom.kube.resources import PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.demo.observer import Observer
from gpuloom.local.demo.picture import Picture
from gpuloom.local.demo.screen import render_picture
from gpuloom.local.demo.story import Scene, describe_stage, tell_story
from gpuloom.local.demo.verdict import find_faults
from gpuloom.vendors.profile import Profile

_SETTLE_S = 30.0
_SCENE_PAUSE_S = 8.0
_FRAME_S = 0.25
_PLAIN_FRAME_S = 2.0
_ENCORE = "The story is over, the cluster stays: create and delete pods as you like, Ctrl-C ends it."


class DemoError(Exception):
    """The demo did not turn out as it should; the message says what is wrong."""


async def perform_once(console: Console, *, port: int = 0, own: Sequence[Profile] = ()) -> None:
    """Play all scenes as fast as the cluster settles, check each, print the last picture.

    ``own`` are families of one's own; each gets a node.

    Raises DemoError when a scene did not turn out as it should, OSError when the port is taken.
    """
    async with _stage(port, own) as (cluster, observer):
        title = ""
        for scene in tell_story():
            await _play(cluster, scene)
            await _settle(observer, scene)
            title = scene.title
        console.print(render_picture(observer.look(), title=title, hints=_hints(cluster)))
        console.print("All as it should be: nothing is over-allocated, and whoever waits has a reason.")


async def perform_live(console: Console, *, port: int = 0, own: Sequence[Profile] = ()) -> None:
    """Play the story at a pace for people and go on showing the cluster until cancelled.

    ``own`` are families of one's own; each gets a node.

    Raises OSError when the port is taken.
    """
    async with _stage(port, own) as (cluster, observer):
        show = _Show(console, observer, _hints(cluster))
        async with asyncio.TaskGroup() as group:
            group.create_task(show.run())
            for scene in tell_story():
                await _play(cluster, scene)
                show.set_title(scene.title)
                with contextlib.suppress(DemoError):
                    await _settle(observer, scene)
                await asyncio.sleep(_SCENE_PAUSE_S)
            show.set_title(_ENCORE)


class _Show:
    """Shows the picture whenever it changed: in place on a terminal, one below the other elsewhere."""

    def __init__(self, console: Console, observer: Observer, hints: list[str]) -> None:
        self._console = console
        self._observer = observer
        self._hints = hints
        self._title = ""

    def set_title(self, title: str) -> None:
        self._title = title
        self._observer.changed.set()

    async def run(self) -> None:
        if not self._console.is_terminal:
            async for picture in self._pictures(_PLAIN_FRAME_S):
                self._console.print(render_picture(picture, title=self._title, hints=self._hints), "")
            return
        with Live(console=self._console, auto_refresh=False, vertical_overflow="ellipsis") as live:
            async for picture in self._pictures(_FRAME_S):
                live.update(render_picture(picture, title=self._title, hints=self._hints), refresh=True)

    async def _pictures(self, pause_s: float) -> AsyncIterator[Picture]:
        last: tuple[str, Picture] | None = None
        while True:
            await self._observer.changed.wait()
            # What changes in quick succession is shown together.
            await asyncio.sleep(pause_s)
            self._observer.changed.clear()
            now = (self._title, self._observer.look())
            if now != last:
                last = now
                yield now[1]


@asynccontextmanager
async def _stage(port: int, own: Sequence[Profile]) -> AsyncIterator[tuple[LocalCluster, Observer]]:
    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(describe_stage(own), Path(directory), port=port) as cluster:
            await cluster.wait_until_registered()
            observer = Observer(cluster.client, cluster.description.catalog)
            async with asyncio.TaskGroup() as group, observer.watching():
                guard = group.create_task(cluster.wait_failed())
                yield cluster, observer
                guard.cancel()


async def _play(cluster: LocalCluster, scene: Scene) -> None:
    for name in scene.leaves:
        await cluster.client.delete(PODS, name, namespace="default")
    for manifest in scene.comes:
        await cluster.submit(manifest)


async def _settle(observer: Observer, scene: Scene) -> None:
    try:
        async with asyncio.timeout(_SETTLE_S):
            while find_faults(observer.look(), scene):
                await observer.changed.wait()
                observer.changed.clear()
    except TimeoutError as error:
        faults = "; ".join(find_faults(observer.look(), scene))
        raise DemoError(f"after {_SETTLE_S:g} s: {faults}") from error


def _hints(cluster: LocalCluster) -> list[str]:
    return [
        f"kubeconfig: {cluster.kubeconfig}",
        f"try: kubectl --kubeconfig {cluster.kubeconfig} get pods -o wide",
        f"try: gpuloom explain giant --kubeconfig {cluster.kubeconfig}",
        f"dashboard: {cluster.pages_url} (sign in with the token {cluster.server.token})",
    ]
