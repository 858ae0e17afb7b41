"""One line that says what is wrong and what to do, exit code 1 or 2."""

import gzip
from pathlib import Path

import pytest
from local.asking.conftest import Said, Stage, run_gpuloom

pytestmark = pytest.mark.asyncio(loop_scope="module")


def check(said: Said, code: int, *words: str) -> None:
    assert (said.code, said.out) == (code, ""), said
    lines = said.err.splitlines()
    assert len(lines) == 1, said.err
    assert lines[0].startswith("gpuloom: ")
    assert [word for word in words if word not in lines[0]] == [], lines[0]


async def test_an_unknown_pod_is_named(stage: Stage) -> None:
    check(await stage.gpuloom("explain", "nobody"), 1, "there is no pod default/nobody: see gpuloom pending")


async def test_an_unknown_node_is_named(stage: Stage) -> None:
    check(await stage.gpuloom("nodes", "nowhere"), 1, "there is no node nowhere: see gpuloom nodes")


async def test_an_unknown_card_is_named(stage: Stage) -> None:
    check(await stage.gpuloom("cards", "GPU-x"), 1, "no node has a card GPU-x: see gpuloom cards")


async def test_who_may_not_is_told_which_right_is_missing(stage: Stage, tmp_path: Path) -> None:
    server = stage.cluster.server
    token = server.accounts.add("somebody", lambda verb, resource, _: (verb, resource) != ("list", "nodes"))
    server.write_kubeconfig(tmp_path / "kubeconfig", token=token)
    check(await stage.gpuloom("nodes", kubeconfig=str(tmp_path / "kubeconfig")), 3, "the right to list nodes")


async def test_who_may_do_nothing_is_told_so(stage: Stage, tmp_path: Path) -> None:
    server = stage.cluster.server
    token = server.accounts.add("nobody", lambda *_: False)
    server.write_kubeconfig(tmp_path / "kubeconfig", token=token)
    said = await stage.gpuloom("pending", kubeconfig=str(tmp_path / "kubeconfig"))
    check(said, 3, 'User "nobody" cannot list', "ask an administrator", "services/proxy")


async def test_a_token_that_nobody_knows_is_refused(stage: Stage) -> None:
    said = await stage.gpuloom("pods", "--server", stage.cluster.pages_url, GPULOOM_TOKEN="old")
    check(said, 3, "the API server does not know this token", "get a new one")


async def test_a_kubeconfig_whose_login_is_refused_says_what_to_do(stage: Stage, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    stage.cluster.server.write_kubeconfig(config, token="old")
    for command in (("top",), ("cordon", "GPU-x"), ("snapshot",)):
        said = await stage.gpuloom(*command, kubeconfig=str(config))
        check(said, 3, "Unauthorized", "log in anew, or name another kubeconfig")


async def test_no_cluster_is_no_traceback(tmp_path: Path) -> None:
    said = await run_gpuloom("pods", kubeconfig=str(tmp_path / "none"))
    check(said, 3, str(tmp_path / "none"), "No such file")


async def test_who_names_a_server_without_a_login_is_told_of_the_token_too(tmp_path: Path) -> None:
    said = await run_gpuloom("top", "--server", "http://127.0.0.1:9", HOME=str(tmp_path))
    check(
        said,
        3,
        "no Kubernetes credentials: name a kubeconfig",
        "or give the token for http://127.0.0.1:9 in the variable GPULOOM_TOKEN",
    )


async def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        '{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k"}}],'
        ' "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:9"}}]}'
    )
    said = await run_gpuloom("pods", kubeconfig=str(config))
    check(said, 3, "no answer from http://127.0.0.1:9", "see whether it runs, or name another kubeconfig")


async def test_an_unknown_context_names_those_there_are(stage: Stage) -> None:
    said = await stage.gpuloom("pods", "--context", "elsewhere")
    check(said, 3, "no context 'elsewhere'", "there are:")


async def test_a_snapshot_of_an_unknown_form_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "old.jsonl"
    file.write_text('{"type": "SETTINGS"}\n{"type": "CLUSTER_V0", "nodes": []}\n')
    check(await run_gpuloom("nodes", "--from", str(file)), 2, "old.jsonl:2", "gpuloom snapshot")


async def test_an_empty_snapshot_is_none() -> None:
    """As a snapshot leaves it that could not be taken."""
    check(await run_gpuloom("top", "--from", "-"), 2, "- is empty: take a recording with gpuloom snapshot")


async def test_half_a_snapshot_says_where_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "half.gz"
    file.write_bytes(gzip.compress(b'{"type": "SETTINGS"}\n' * 50)[:-20])
    check(await run_gpuloom("nodes", "--from", str(file)), 2, "half.gz:", "gpuloom snapshot")


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    check(await run_gpuloom("explain", "p", "--from", str(tmp_path / "no")), 2, "no: No such file")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\nspec:\n  containers:\n  - name: c\n   image: x\n", ("-: line 5", "correct it")),
        ("kind: Pod\nspec: {containers: [", ("-: line 3",)),
        ("just words", ("-: 'just words' is no manifest",)),
        ("kind: Service\n", ("makes no pod", "Service")),
        ("", ("makes no pod",)),
        ("metadata: {name: x}\n", ("a manifest without kind",)),
    ],
)
async def test_half_written_yaml_says_where(stage: Stage, text: str, words: tuple[str, ...]) -> None:
    check(await stage.gpuloom("fits", "-f", "-", stdin=text), 2, *words)


async def test_a_pod_of_wrong_types_is_refused_by_the_scheduler(stage: Stage) -> None:
    said = await stage.gpuloom("fits", "-f", "-", stdin="kind: Pod\nspec: {containers: 7}\n")
    check(said, 1, "this is no pod", "containers")


async def test_two_sources_exclude_each_other(stage: Stage) -> None:
    check(await stage.gpuloom("pods", "--from", "x", "--server", "http://127.0.0.1:1"), 2, "--from and --server")


@pytest.mark.parametrize("name", ["a/b/c", "pod/"])
async def test_what_is_no_name_of_a_pod_is_wrong_usage(stage: Stage, name: str) -> None:
    check(await stage.gpuloom("explain", name), 2, "is no pod: give POD")
