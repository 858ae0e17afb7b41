"""-l, --sort-by and --watch, with kubectl's words and ways."""

import asyncio

import pytest
import pytest_asyncio
from local.asking.conftest import DEADLINE_S, Stage, start_gpuloom

from gpuloom.kube import NODES, PODS
from gpuloom.local.manifests import pod_manifest

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def _labels(stage: Stage) -> None:
    await stage.cluster.client.patch(NODES, "node-b", {"metadata": {"labels": {"disk": "ssd", "zone": "b"}}})
    await stage.cluster.client.patch(PODS, "waits", {"metadata": {"labels": {"app": "web"}}}, namespace="default")


@pytest.mark.parametrize(
    ("tokens", "names"),
    [
        (("nodes", "-l", "disk=ssd"), ["node/node-b"]),
        (("nodes", "--selector", "zone notin (b)"), ["node/node-a"]),
        (("nodes", "--sort-by", "{.memory.total}"), ["node/node-a", "node/node-b"]),
        (("nodes", "--sort-by=.score"), ["node/node-b", "node/node-a"]),
        (("top", "nodes", "-l", "!disk"), ["node-a"]),
        (("pending", "-l", "app=web"), ["pod/waits"]),
        (("pending", "-A", "-l", "app=web"), ["pod/waits"]),
        (("pods", "-l", "app!=web"), ["pod/runs"]),
    ],
)
async def test_lists_are_chosen_and_sorted(stage: Stage, tokens: tuple[str, ...], names: list[str]) -> None:
    said = await stage.gpuloom(*tokens, "-o", "name")
    assert (said.code, said.out.splitlines()) == (0, names), said


async def test_cards_are_chosen_by_the_labels_of_their_node(stage: Stage) -> None:
    cards = (await stage.gpuloom("cards", "-l", "disk=ssd", "-o", "json")).json()["items"]
    assert [card["node"] for card in cards] == ["node-b"] * 4


async def test_a_selector_that_nothing_has_is_named(stage: Stage) -> None:
    said = await stage.gpuloom("pods", "-l", "app=none")
    assert (said.code, said.out, said.err) == (
        0,
        "",
        "No pod has a card with labels app=none in namespace default; -A is all namespaces.\n",
    )


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (("nodes", "-l", "a in ("), "--selector 'a in ('"),
        (("nodes", "node-a", "-l", "disk=ssd"), "node-a cannot be given with a selector"),
        (("nodes", "node-a", "-w"), "leave node-a out"),
        (("top", "-l", "disk=ssd"), "give top nodes or top cards"),
        (("pods", "--output-watch-events"), "events of --watch"),
        (("pods", "--sort-by", ".age"), "there is no field 'age'; there are pod, uid, node,"),
        (("pods", "-l", "a=b", "--from", "-"), "--selector asks the API server, --from a file"),
    ],
)
async def test_nonsense_is_wrong_usage(stage: Stage, tokens: tuple[str, ...], words: str) -> None:
    said = await stage.gpuloom(*tokens)
    assert (said.code, said.out) == (2, ""), said
    assert words in said.err


async def test_a_watch_goes_on_and_tells_what_comes(stage: Stage) -> None:
    watching = await start_gpuloom(
        "pods", "-w", "--output-watch-events", "--no-headers", kubeconfig=str(stage.cluster.kubeconfig)
    )
    assert watching.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            assert (await watching.stdout.readline()).split()[:3] == [b"ADDED", b"default", b"runs"]
            await stage.cluster.submit(pod_manifest("comes", memory_mib=1000))
            assert (await watching.stdout.readline()).split()[:3] == [b"ADDED", b"default", b"comes"]
            await stage.cluster.client.delete(PODS, "comes", namespace="default")
            while (line := (await watching.stdout.readline()).split())[0] == b"MODIFIED":
                pass
            assert line[:3] == [b"DELETED", b"default", b"comes"]
        watching.terminate()
        _, err = await watching.communicate()
        assert (watching.returncode, err) == (130, b"")
    finally:
        if watching.returncode is None:
            watching.kill()


async def test_a_file_cannot_be_watched(stage: Stage) -> None:
    snapshot = await stage.gpuloom("snapshot")
    said = await stage.gpuloom("pods", "-w", "--from", "-", stdin=snapshot.out)
    assert (said.code, said.out) == (3, "")
    assert said.err.endswith("--watch asks the scheduler again and again, and it does not answer\n")
