"""Whether the namespace is there in which ``gpuloom fits`` is to imagine a pod."""

from pathlib import Path

import pytest
from local.asking.conftest import POD, Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMESPACE = "kind: Namespace\nmetadata: {name: nowhere}\n---\n"
ROOM = "Pod/new: room for 15 such pods"


@pytest.mark.parametrize(
    ("flags", "pod"),
    [(("-n", "nowhere"), POD), ((), POD.replace("name: new", "name: new, namespace: nowhere"))],
    ids=["by a flag", "by the manifest"],
)
async def test_a_namespace_that_there_is_not_is_refused(stage: Stage, flags: tuple[str, ...], pod: str) -> None:
    said = await stage.gpuloom("fits", "-f", "-", *flags, stdin=pod)
    assert (said.code, said.out) == (1, "")
    assert said.err == 'gpuloom: namespace "nowhere" does not exist: create it, or name another\n'


async def test_a_namespace_that_the_file_makes_need_not_be_there(stage: Stage) -> None:
    said = await stage.gpuloom("fits", "-f", "-", "-n", "nowhere", stdin=NAMESPACE + POD)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(ROOM)


async def test_who_may_not_read_namespaces_is_told_nothing_of_them(stage: Stage, tmp_path: Path) -> None:
    server, kubeconfig = stage.cluster.server, tmp_path / "kubeconfig"
    token = server.accounts.add("no-namespaces", lambda _, resource, __: resource != "namespaces")
    server.write_kubeconfig(kubeconfig, token=token)
    said = await stage.gpuloom("fits", "-f", "-", "-n", "nowhere", stdin=POD, kubeconfig=str(kubeconfig))
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(ROOM)


async def test_a_snapshot_may_be_of_a_cluster_that_has_the_namespace(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.jsonl"
    file.write_text((await stage.gpuloom("snapshot")).out)
    said = await stage.gpuloom("fits", "-f", "-", "-n", "nowhere", "--from", str(file), stdin=POD)
    assert said.out.startswith(ROOM)
    assert "nowhere" not in said.err


async def test_a_server_that_is_named_may_be_of_a_cluster_that_has_the_namespace(stage: Stage) -> None:
    flags = ("-n", "nowhere", "--server", stage.cluster.pages_url)
    said = await stage.gpuloom("fits", "-f", "-", *flags, stdin=POD)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(ROOM)
