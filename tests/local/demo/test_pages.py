"""What pages show of the demo's cluster is what their commands print there, but for ages."""

import asyncio
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from pages.ledger import COMMAND_LINE, QUICK_START, SHELL
from pages.reader import Reader
from pages.reading import ROOT, list_blocks, list_shown

from gpuloom.kube.resources import PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.demo.story import describe_stage, tell_story
from gpuloom.local.waiting import wait_until
from harness import binaries

BESIDE = ("gpuloom doctor --help", "gpuloom vendors", "gpuloom vendors --markdown", "gpuloom version")
ENDS = {"gpuloom preempt giant --dry-run": 1}
AGE = re.compile(r"\b(?:\d+m(?:\d+s)?|\d+s)\b")
USES = re.compile(r"uses [\d,]+ MiB, load \d+ %$")
USED_BESIDE_GIVEN = re.compile(r"(\)) +[\d,]+ +(\d+/\d+ \(\d+%\)) +\d+$")


@pytest.fixture
async def demo() -> AsyncIterator[LocalCluster]:
    """The demo's cluster as it is when two pods wait."""
    with tempfile.TemporaryDirectory(prefix="gl-") as directory:
        async with LocalCluster(describe_stage(), Path(directory), backoff_initial_s=0.1) as cluster:
            await cluster.wait_until_registered()
            for scene in range(3):
                await play(cluster, scene)
            yield cluster


@contextmanager
def open_reader(demo: LocalCluster, *programs: str) -> Iterator[Reader]:
    """Be somebody in a checkout with its environment and these programs, who follows the start of the quick start."""
    with tempfile.TemporaryDirectory(prefix="gl-") as directory:
        checkout = Path(directory)
        (checkout / "docs").symlink_to(ROOT / "docs")
        (checkout / ".venv").symlink_to(sys.prefix)
        places = {"/tmp/gpuloom-.../kubeconfig": str(demo.kubeconfig)}
        with Reader(checkout, {}, places, programs=map(binaries.find, programs)) as found:
            for command in SHELL:
                found.prepare(command)
            yield found


async def play(cluster: LocalCluster, number: int) -> None:
    """Let one scene of the demo happen, until it has settled."""
    scene = tell_story()[number]
    for name in scene.leaves:
        await cluster.client.delete(PODS, name, namespace="default")
    for manifest in scene.comes:
        await cluster.submit(manifest)

    def has_settled(found) -> bool:
        return all(is_running(found, name) for name in scene.running) and scene.waiting <= {name for _, name in found}

    await wait_until(cluster.client, PODS, has_settled, timeout_s=60)


def is_running(found, name: str) -> bool:
    return any(pod.name == name and pod.status.phase == "Running" for pod in found.values())


def list_differences(shown: str, printed: str, *, in_order: bool) -> list[tuple[str, str]]:
    """Compare line by line what a page shows with what was printed; behind dots the page leaves out the rest."""
    lines = [line for line in shown.splitlines() if not line.startswith("gpuloom: ")]
    told, is_cut = (lines[:-1], True) if lines[-1:] == ["..."] else (lines, False)
    found = printed.splitlines()
    found = found[: len(told)] if is_cut else found
    if not in_order:
        told, found = sorted(told), sorted(found)
    pairs = zip([*told, *[""] * (len(found) - len(told))], [*found, *[""] * (len(told) - len(found))], strict=True)
    return [pair for pair in pairs if _plain(pair[0]) != _plain(pair[1])]


def _plain(line: str) -> list[str]:
    return USED_BESIDE_GIVEN.sub(r"\1 USED \2 BUSY", USES.sub("USES", AGE.sub("AGE", line))).split()


async def wait_until_use_is_known(demo: LocalCluster) -> None:
    """Wait until the scheduler has asked what all pods use, which it does every few seconds."""
    url, head = f"{demo.pages_url}/api/v1/pods", {"Authorization": f"Bearer {demo.server.token}"}
    async with aiohttp.ClientSession(headers=head) as session, asyncio.timeout(60):
        while True:
            async with session.get(url) as reply:
                pods = (await reply.json())["items"]
            if all(pod.get("used") for pod in pods):
                return


async def check_shown(reader: Reader, page: str, demo: LocalCluster) -> None:
    """Type the commands of a page in its order; compare all that they print.

    Events come in no order, and pods that wait by the second in which they came.
    """
    differences = {}
    for command, shown in list_shown(page):
        printed = await asyncio.to_thread(reader.type, command, status=ENDS.get(command, 0))
        if command.startswith("kubectl apply"):
            await wait_until(demo.client, PODS, lambda found: is_running(found, "notebook"), timeout_s=60)
        in_order = not command.startswith(("kubectl get events", "gpuloom pending"))
        differences[command] = list_differences(shown, printed, in_order=in_order)
    assert {command: found for command, found in differences.items() if found} == {}


async def test_answers_of_the_command_line_are_those_of_the_pages(demo: LocalCluster) -> None:
    await wait_until_use_is_known(demo)
    with open_reader(demo) as reader:
        await check_shown(reader, "docs/cli.md", demo)
        await check_shown(reader, "docs/own-vendor.md", demo)
        for command in (*BESIDE, *list_blocks("docs/cli.md#Completion: `completion`")[0]):
            await asyncio.to_thread(reader.type, command)
        assert "giant" in await asyncio.to_thread(reader.type, "gpuloom pending -A")
        assert reader.typed == COMMAND_LINE.promised()


async def test_pods_that_wait_longest_are_listed_first(demo: LocalCluster) -> None:
    head = {"Authorization": f"Bearer {demo.server.token}"}
    url = f"{demo.pages_url}/api/v1/pending"
    async with aiohttp.ClientSession(headers=head) as session, session.get(url) as reply:
        waiting = [(pod["created"], pod["pod"]["name"]) for pod in (await reply.json())["items"]]
    assert {name for _, name in waiting} == {"giant", "train-wide"}
    assert waiting == sorted(waiting)


@pytest.mark.control_plane
async def test_answers_on_the_quick_start_are_those_of_the_demo(
    control_plane_binaries: None, demo: LocalCluster
) -> None:
    await play(demo, 3)
    with open_reader(demo, "kubectl") as reader:
        await check_shown(reader, "docs/quickstart.md", demo)
        assert "room for" in await asyncio.to_thread(reader.type, "gpuloom fits -f docs/examples/notebook.yaml")
        assert "train-wide" in await asyncio.to_thread(reader.type, "kubectl get pods -o wide")
        assert reader.typed == QUICK_START.promised()


async def test_the_demos_metrics_count_the_pods_that_wait(demo: LocalCluster) -> None:
    text = await read_metrics(demo)
    assert 'gpuloom_pods_pending{cause="cards"} 2.0' in text
    async with asyncio.timeout(60):  # A pod is 0 s old for its first second, as times in objects are whole seconds.
        while not (age_s := read_oldest(text)):
            text = await read_metrics(demo)
    assert age_s < 600


@pytest.mark.parametrize("head", [{}, {"Authorization": "Bearer zz"}])
async def test_the_demos_metrics_ask_for_a_token_as_the_charts_do(demo: LocalCluster, head: dict[str, str]) -> None:
    assert (await ask_metrics(demo, head))[0] == 401


async def read_metrics(demo: LocalCluster) -> str:
    status, text = await ask_metrics(demo, {"Authorization": f"Bearer {demo.server.token}"})
    assert status == 200
    return text


async def ask_metrics(demo: LocalCluster, head: dict[str, str]) -> tuple[int, str]:
    url = f"{demo.scheduler.urls.metrics}/metrics"
    async with aiohttp.ClientSession(headers=head) as session, session.get(url, ssl=False) as reply:
        return reply.status, await reply.text()


def read_oldest(metrics: str) -> float:
    (found,) = re.findall(r'^gpuloom_pods_pending_oldest_seconds{cause="cards"} (\S+)$', metrics, re.MULTILINE)
    return float(found)
