"""The demo's run: builds the cluster, plays the scenes, shows the picture, and leaves nothing behind."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live

from gpuloom.kube.errors import ApiError
from gpuloom.kube.resources import HOST_PODS, PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.demo.keeper import Keeper
from gpuloom.local.demo.observer import Observer
from gpuloom.local.demo.picture import ClusterPicture
from gpuloom.local.demo.program import tell_program
from gpuloom.local.demo.screen import render_picture
from gpuloom.local.demo.story import Scene, Story
from gpuloom.local.demo.verdict import find_faults
from gpuloom.scheduler.defragmentation.cluster import MovingCluster, keep_bound, read_budgets, read_pods
from gpuloom.scheduler.defragmentation.moving import MoveError, MoveReport, make_moves
from gpuloom.scheduler.defragmentation.planning import order_moves, plan_for
from gpuloom.scheduler.timeslice import TimeSlice

SETTLE_S = 30.0
_MOST_MOVES = 10
_SCENE_PAUSE_S = 8.0
_FRAME_S = 0.25
_PLAIN_FRAME_S = 2.0
_ENCORE = "The story is over, the cluster stays: create and delete pods as you like, Ctrl-C ends it."


class DemoError(Exception):
    """The demo did not turn out as it should; the message says what is wrong."""


async def perform_once(console: Console, story: Story, *, port: int = 0, settle_s: float = SETTLE_S) -> None:
    """Play all scenes as fast as the cluster settles; check each, and print the picture of it.

    ``settle_s`` is how long a scene may take. Raises DemoError when one did not turn out as it should, OSError when the
    port is taken.
    """
    async with _stage(story, port) as stage:
        for number, scene in enumerate(story.scenes):
            await stage.play(scene)
            await stage.settle(scene, settle_s)
            picture = stage.observer.look()
            hints = [] if number else stage.hints(picture)
            notes, folds = stage.notes, console.is_terminal
            console.print(render_picture(picture, title=scene.title, hints=hints, notes=notes, folds=folds))
        console.print("All as it should be: nothing is over-allocated, and whoever waits has a reason.")


async def perform_live(console: Console, story: Story, *, port: int = 0) -> None:
    """Play a story at a pace for people and go on showing the cluster until cancelled.

    Raises OSError when the port is taken.
    """
    async with _stage(story, port) as stage:
        show = _Show(console, stage)
        async with asyncio.TaskGroup() as group:
            group.create_task(show.run())
            for scene in story.scenes:
                show.set_title(f"Next: {scene.title}")
                with contextlib.suppress(DemoError):
                    await stage.play(scene)
                    await stage.settle(scene, SETTLE_S)
                    show.set_title(scene.title)
                await asyncio.sleep(_SCENE_PAUSE_S)
            show.set_title(_ENCORE)


class _Show:
    """Shows the picture whenever it changed: in place on a terminal, one below the other elsewhere."""

    def __init__(self, console: Console, stage: "_Stage") -> None:
        self._console = console
        self._stage = stage
        self._title = ""

    def set_title(self, title: str) -> None:
        self._title = title
        self._stage.observer.changed.set()

    async def run(self) -> None:
        if not self._console.is_terminal:
            async for picture in self._pictures(_PLAIN_FRAME_S):
                self._console.print(self._render(picture), "")
            return
        with Live(console=self._console, auto_refresh=False, vertical_overflow="ellipsis") as live:
            async for picture in self._pictures(_FRAME_S):
                live.update(self._render(picture), refresh=True)

    def _render(self, picture: ClusterPicture) -> RenderableType:
        console, hints, notes = self._console, self._stage.hints(picture), self._stage.notes
        render = partial(
            render_picture, picture, title=self._title, hints=hints, notes=notes, folds=console.is_terminal
        )
        drawn = render()
        fits = not console.is_terminal or len(console.render_lines(drawn)) < console.height
        return drawn if fits else render(is_short=True)

    async def _pictures(self, pause_s: float) -> AsyncIterator[ClusterPicture]:
        last: tuple[str, ClusterPicture] | None = None
        while True:
            await self._stage.observer.changed.wait()
            # What changes in quick succession is shown together.
            await asyncio.sleep(pause_s)
            self._stage.observer.changed.clear()
            now = (self._title, self._stage.observer.look())
            if now != last:
                last = now
                yield now[1]


class _Stage:
    """The cluster of a story, who watches it, and what was told of moves (``notes``)."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.observer = Observer(cluster.client, cluster.description.catalog)
        self.keeper = Keeper(cluster.client)
        self.notes: list[str] = []
        self._cluster = cluster

    async def play(self, scene: Scene) -> None:
        for name in scene.leaves:
            self.keeper.let_go(name)
            await self._cluster.client.delete(PODS, name, namespace="default")
        for manifest in scene.comes:
            self.keeper.keep(manifest)
            await self._cluster.submit(manifest)
        if scene.moves_for:
            await self._move_for(scene.moves_for)

    async def settle(self, scene: Scene, settle_s: float) -> None:
        """Wait until a scene is what it promised.

        Raises DemoError.
        """
        try:
            async with asyncio.timeout(settle_s):
                while find_faults(self.observer.look(), scene):
                    await self.observer.changed.wait()
                    self.observer.changed.clear()
        except TimeoutError as error:
            faults = "; ".join(find_faults(self.observer.look(), scene))
            raise DemoError(f"after {settle_s:g} s: {faults}") from error

    async def _move_for(self, name: str) -> None:
        """Do what ``gpuloom defrag --execute`` does."""
        client, state = self._cluster.client, self._cluster.scheduler.parts.state
        pod = await client.get(HOST_PODS, name, namespace="default")
        cluster = MovingCluster(state, keep_bound(await read_pods(client)), await read_budgets(client))
        plan = await TimeSlice().finish(plan_for(cluster, pod, _MOST_MOVES))
        if plan is None:
            raise DemoError(f"no moves make room for pod {name}")
        try:
            await make_moves(client, order_moves(cluster, plan, SETTLE_S), MoveReport.by_lines(self._note))
        except (MoveError, ApiError) as error:
            raise DemoError(str(error)) from error

    def _note(self, line: str) -> None:
        self.notes.append(line)
        self.observer.changed.set()

    def hints(self, picture: ClusterPicture) -> list[str]:
        """Say what else one may try; of the pods that are there, one that waits is worth explaining most."""
        kubeconfig = self._cluster.kubeconfig
        pods = [*(pod.name for pod in picture.waiting), *sorted(picture.running)]
        return [
            f"try: export KUBECONFIG={kubeconfig}",
            "try: kubectl get pods -o wide",
            *(f"try: {tell_program()} explain {pod}" for pod in pods[:1]),
            f"dashboard: {self._cluster.pages_url}",
            f"token to sign in: {self._cluster.server.token}",
            f"metrics: {self._cluster.scheduler.urls.metrics}/metrics (curl -k, the token as bearer)",
        ]


@asynccontextmanager
async def _stage(story: Story, port: int) -> AsyncIterator[_Stage]:
    with tempfile.TemporaryDirectory(prefix="gpuloom-") as directory:
        async with LocalCluster(story.stage, Path(directory), port=port) as cluster:
            await cluster.wait_until_registered()
            stage = _Stage(cluster)
            async with asyncio.TaskGroup() as group, stage.observer.watching():
                guards = [group.create_task(cluster.wait_failed()), group.create_task(stage.keeper.run())]
                yield stage
                for guard in guards:
                    guard.cancel()
