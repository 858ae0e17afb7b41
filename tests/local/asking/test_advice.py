"""What explain and pending say of a pod that no node takes for what it asks beside cards."""

import re
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio
from local.asking.conftest import Stage

from gpuloom.local.manifests import pod_manifest

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADVICE = (
    "ontainer main: no node has nvidia.com/gpumemory, and gpuloom knows no such resource, so the pod will stay "
    "pending; did you mean nvidia.com/gpumem?"
)


async def submit(stage: Stage, name: str, limits: Mapping[str, str]) -> None:
    manifest = pod_manifest(name)
    manifest["spec"]["containers"][0]["resources"]["limits"] = dict(limits)
    await stage.cluster.submit(manifest)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def waiting(stage: Stage) -> AsyncIterator[Stage]:
    await submit(stage, "mistyped", {"nvidia.com/gpu": "1", "nvidia.com/gpumemory": "3000"})
    await submit(stage, "typo-only", {"nvidia.com/gpumemory": "3000"})
    await submit(stage, "many-cpus", {"nvidia.com/gpu": "1", "cpu": "5000"})
    yield stage


async def test_a_mistyped_resource_is_told_by_explain(waiting: Stage) -> None:
    brief = (await waiting.gpuloom("explain", "mistyped")).out
    assert brief.splitlines()[1].startswith(f"C{ADVICE}"), brief
    assert f"  note: c{ADVICE}\n" in (await waiting.gpuloom("explain", "-v", "mistyped")).out


async def test_a_mistyped_resource_is_told_in_the_list(waiting: Stage) -> None:
    (row,) = [row for row in (await waiting.gpuloom("pending")).out.splitlines() if "mistyped" in row]
    assert row.endswith(ADVICE.partition(": ")[2]), row


async def test_a_pod_that_asks_for_a_mistyped_resource_alone_is_known(waiting: Stage) -> None:
    said = await waiting.gpuloom("explain", "typo-only")
    assert (said.code, said.err) == (0, "")
    first, second = said.out.splitlines()
    alone = "asks for no card: kube-scheduler places it alone"
    assert first == f"pod default/typo-only {alone}; 0 of 2 nodes take the pod: 2 Insufficient nvidia.com/gpumemory."
    assert second == f"C{ADVICE}"


async def test_a_pod_that_is_not_there_is_told_so(waiting: Stage) -> None:
    said = await waiting.gpuloom("explain", "nobody")
    assert (said.code, said.err) == (
        1,
        "gpuloom: there is no pod default/nobody: see gpuloom pending -A and gpuloom pods -A\n",
    )


async def test_too_many_cpus_are_told_with_the_most_that_is_free(waiting: Stage) -> None:
    brief = (await waiting.gpuloom("explain", "many-cpus")).out
    told = re.search(
        r"2 Insufficient cpu; it asks for 5,000 CPUs, and the node with most free has (\d+) of \1 CPUs", brief
    )
    assert told, brief
    assert f"; it would fit on node-a or 1 other with {told[1]} CPUs at most.\n" in brief
    assert re.search(told[0], (await waiting.gpuloom("pending")).out)
