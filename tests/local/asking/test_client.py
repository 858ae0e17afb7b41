"""gpuloom.client: programs ask as the command line does, and get the same structs."""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from local.asking.conftest import DEADLINE_S, Stage
from local.asking.listener import listen, present
from pages.reading import list_blocks

from gpuloom.client import (
    AskingError,
    DeclinedError,
    MisusedError,
    SchedulerClient,
    UnansweredError,
    UnauthenticatedError,
    UnknownObjectError,
    connect,
)
from gpuloom.kube.authority import CertificateAuthority

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = Path(__file__).parents[3] / "docs" / "api.md"
POD = {
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 6000}}}]}
}
_T = TypeVar("_T")


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("GPULOOM_", "KUBE"))]:
        monkeypatch.delenv(name)


async def ask(stage: Stage, question: Callable[[SchedulerClient], _T], **flags: Any) -> _T:
    def run() -> _T:
        with connect(**{"kubeconfig": str(stage.cluster.kubeconfig), **flags}) as client:
            return question(client)

    return await asyncio.to_thread(run)


async def test_the_example_of_the_page_runs_as_it_stands(stage: Stage) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    env = {**os.environ, "KUBECONFIG": str(stage.cluster.kubeconfig)}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", example, stdout=pipe, stderr=pipe, env=env)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    (card,) = await ask(stage, lambda client: [card for card in client.cards() if card.shares.used])
    *nodes, given, waits, room = out.decode().splitlines()
    assert [line.split()[0] for line in nodes] == ["node-a", "node-b"]
    assert given == f"{card.uuid} default/runs"
    explained = await stage.gpuloom("explain", "waits")
    assert waits == " ".join(explained.out.splitlines())
    assert re.fullmatch("room for [1-9][0-9]* new pods", room)


async def curl(command: str, token: str, folder: Path) -> str:
    line = command.replace("TOKEN", token)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*shlex.split(line), cwd=folder, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err
    return out.decode()


async def test_the_calls_of_the_page_are_answered_without_a_client(stage: Stage, tmp_path: Path) -> None:
    ((plain, forwarded),) = list_blocks("docs/api.md#Who may see what")
    port = stage.cluster.pages_url.rpartition(":")[2]
    said = await curl(plain.replace("PORT", port), stage.cluster.server.token, tmp_path)
    assert msgspec.json.decode(said)["kind"] == "Overview"
    authority = CertificateAuthority.create("the installation's")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    tls = present(authority, ["gpuloom-scheduler-web.gpu-system.svc"], tmp_path)
    async with listen(tls) as listener:
        await curl(forwarded.replace("localhost:9396", f"127.0.0.1:{listener.port}"), "secret", tmp_path)
    assert listener.has_heard("secret")


@pytest.mark.parametrize(
    ("command", "question"),
    [
        (("nodes",), SchedulerClient.nodes),
        (("cards",), SchedulerClient.cards),
        (("pods",), SchedulerClient.pods),
        (("quota",), SchedulerClient.quotas),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
async def test_lists_are_those_of_the_command_line(
    stage: Stage, command: tuple[str, ...], question: Callable[[SchedulerClient], list[object]]
) -> None:
    said = await stage.gpuloom(*command, "-o", "json")
    asked = msgspec.json.decode(msgspec.json.encode(await ask(stage, question)))
    assert leave_out_use(asked) == leave_out_use(said.json()["items"])


def leave_out_use(told: Any) -> Any:
    """Leave out what monitors measured: that may be another measurement by now."""
    if isinstance(told, list):
        return [leave_out_use(item) for item in told]
    if not isinstance(told, dict):
        return told
    return {key: leave_out_use(value) for key, value in told.items() if not (key == "used" and isinstance(value, dict))}


async def test_single_things_are_told_with_who_is_on_them(stage: Stage) -> None:
    def question(client: SchedulerClient) -> tuple[int, list[str], str]:
        (used,) = [card for card in client.node("node-a").cards if card.holders]
        return client.overview().cards, [one.pod.full_name for one in client.card(used.uuid).holders], client.namespace

    assert await ask(stage, question) == (6, ["default/runs"], "default")


async def test_the_beginning_of_a_uuid_is_enough(stage: Stage) -> None:
    def question(client: SchedulerClient) -> bool:
        uuid = client.cards()[0].uuid
        return client.card(uuid[:-4]).uuid == uuid

    assert await ask(stage, question)


async def test_a_card_is_found_by_node_and_index(stage: Stage) -> None:
    def question(client: SchedulerClient) -> bool:
        card = client.cards()[1]
        return client.card(f"{card.node}/{card.index}").uuid == card.uuid

    assert await ask(stage, question)


async def test_pods_are_explained_and_tried(stage: Stage) -> None:
    def question(client: SchedulerClient) -> tuple[str, int, str]:
        return client.explain("waits").outcome, client.fits(POD).pods, client.preempt("waits").node

    assert await ask(stage, question) == ("does not fit", 15, "")


@pytest.mark.parametrize(
    ("question", "kind", "words"),
    [
        (lambda client: client.node("nowhere"), UnknownObjectError, "there is no node nowhere: see nodes()"),
        (lambda client: client.card("GPU-none"), UnknownObjectError, "no node has a card GPU-none"),
        (lambda client: client.card("node-a/99"), UnknownObjectError, "no card with index 99: see cards()"),
        (lambda client: client.card(None), MisusedError, "name is None, which is no text"),
        (lambda client: client.card("GPU-none#a"), UnknownObjectError, "no node has a card GPU-none#a"),
        (lambda client: client.card("node-a"), UnknownObjectError, "no node has a card node-a; node-a is a node"),
        (lambda client: client.card("GPU-"), MisusedError, "GPU- is the beginning of 6 cards"),
        (
            lambda client: client.explain("none", "team"),
            UnknownObjectError,
            "no pod team/none: see pending() and pods()",
        ),
        (lambda client: client.explain(None), MisusedError, "pod is None, which is no name"),
        (lambda client: client.explain("../nodes"), MisusedError, "pod is '../nodes', which is no name"),
        (lambda client: client.explain("waits", ".."), MisusedError, "namespace is '..', which is no name"),
        (lambda client: client.preempt(""), MisusedError, "pod is '', which is no name"),
        (lambda client: client.node("a/b"), MisusedError, "node is 'a/b', which is no name"),
        (lambda client: client.pods(17), MisusedError, "namespace is 17, which is no name"),
        (lambda client: client.pending(None), MisusedError, "namespace is None, which is no name"),
        (lambda client: client.fits("x"), MisusedError, "pod is 'x', which is no manifest: give it as a dictionary"),
        (lambda client: client.fits(POD, 17), MisusedError, "namespace is 17, which is no name"),
        (lambda client: client.fits({"spec": 5}), DeclinedError, "spec"),
        (lambda client: client.fits({"spec": object()}), MisusedError, "cannot be written as JSON"),
    ],
)
async def test_an_error_is_one_line_that_names_the_object(
    stage: Stage, question: Callable[[SchedulerClient], object], kind: type[AskingError], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)) as raised:
        await ask(stage, question)
    assert "\n" not in str(raised.value)


async def test_the_server_can_be_named_as_flag_or_variable(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    url = stage.cluster.pages_url
    assert len(await ask(stage, SchedulerClient.nodes, server=url)) == 2
    monkeypatch.setenv("GPULOOM_SERVER", "http://example.invalid")
    with pytest.raises(UnansweredError, match="is plain http, so no token is sent there"):
        await ask(stage, SchedulerClient.nodes)


@pytest.mark.parametrize(
    "question",
    [
        SchedulerClient.nodes,
        SchedulerClient.overview,
        lambda client: client.node("node-a"),
        lambda client: client.fits(POD),
    ],
    ids=["a list", "the overview", "a node", "fits"],
)
async def test_an_address_beside_the_api_is_wrong_usage_and_no_missing_object(
    stage: Stage, question: Callable[[SchedulerClient], object]
) -> None:
    for beside in ("/pods", "/nothing"):
        with pytest.raises(MisusedError, match=r"/(pods|nothing): no API of gpuloom answers there; correct server$"):
            await ask(stage, question, server=f"{stage.cluster.pages_url}{beside}")


async def test_the_apis_own_root_may_end_the_address(stage: Stage) -> None:
    assert len(await ask(stage, SchedulerClient.nodes, server=f"{stage.cluster.pages_url}/api/v1/")) == 2


@pytest.mark.parametrize("end", ["?x=1", "/#nodes"])
async def test_an_address_has_no_query(stage: Stage, end: str) -> None:
    with pytest.raises(MisusedError, match=r"more than an address: leave out what begins with \? or #$"):
        await ask(stage, SchedulerClient.nodes, server=f"{stage.cluster.pages_url}{end}")


async def test_nothing_is_sent_to_who_is_not_the_scheduler(stage: Stage, tmp_path: Path) -> None:
    tenant = present(CertificateAuthority.create("a tenant's"), ["127.0.0.1"], tmp_path)
    async with listen(tenant) as bait:
        with pytest.raises(UnansweredError, match="no token was sent"):
            await ask(stage, SchedulerClient.nodes, server=f"https://127.0.0.1:{bait.port}")
    assert bait.headers == []


@pytest.mark.parametrize("way", ["found", "named", "direct"])
async def test_a_token_that_is_refused_has_an_error_of_its_own(stage: Stage, tmp_path: Path, way: str) -> None:
    config = tmp_path / "kubeconfig"
    stage.cluster.server.write_kubeconfig(config, token="old")
    flags = {"found": {}, "named": {"service": "gpu-system/gpuloom-web"}, "direct": {"server": stage.cluster.pages_url}}
    with pytest.raises(UnauthenticatedError, match=r"log in anew|get a new one"):
        await ask(stage, SchedulerClient.overview, kubeconfig=str(config), **flags[way])


@pytest.mark.parametrize("token", ["\u00e9", "two\nlines", "two words"])
@pytest.mark.parametrize("way", ["direct", "found"])
async def test_what_is_no_token_is_refused_and_not_shown(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, way: str
) -> None:
    config = tmp_path / "kubeconfig"
    stage.cluster.server.write_kubeconfig(config, token=token)
    if way == "direct":
        monkeypatch.setenv("GPULOOM_TOKEN", token)
    flags = {"server": stage.cluster.pages_url} if way == "direct" else {}
    with pytest.raises(UnansweredError, match="characters that no token has: copy it anew, in one line") as raised:
        await ask(stage, SchedulerClient.overview, kubeconfig=str(config), **flags)
    assert token not in str(raised.value)


async def test_a_line_end_behind_a_token_is_left_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULOOM_TOKEN", f"{stage.cluster.server.token}\n")
    assert len(await ask(stage, SchedulerClient.nodes, server=stage.cluster.pages_url)) == 2


async def test_wrong_parameters_are_told_apart_from_silence(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(MisusedError, match=r"^service 'nothing' names no Service: give NAMESPACE/NAME"):
        await ask(stage, SchedulerClient.nodes, service="nothing")
    with pytest.raises(UnansweredError, match=r'kube-system/none does not lead .*: services "none" not found'):
        await ask(stage, SchedulerClient.nodes, service="kube-system/none")
    with pytest.raises(UnansweredError, match=r"or correct server$"):
        await ask(stage, SchedulerClient.nodes, server="http://127.0.0.1:9")
    with pytest.raises(MisusedError, match="server is 5, which is no text"):
        await ask(stage, SchedulerClient.nodes, server=5)
    with pytest.raises(UnansweredError, match="none"):
        await ask(stage, SchedulerClient.nodes, kubeconfig=str(tmp_path / "none"))


async def test_a_silent_api_server_is_told_with_what_to_do(stage: Stage, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    url = stage.cluster.server.url
    config.write_text(stage.cluster.kubeconfig.read_text().replace(url, "http://127.0.0.1:9"))
    with pytest.raises(UnansweredError, match=r"; see whether it runs, or name another kubeconfig$"):
        await ask(stage, SchedulerClient.nodes, kubeconfig=str(config))


async def test_a_client_is_closed_after_its_block(stage: Stage) -> None:
    def ask_late() -> None:
        with connect(kubeconfig=str(stage.cluster.kubeconfig)) as client:
            pass
        client.nodes()

    with pytest.raises(MisusedError, match=r"^the client is closed: ask within the with block"):
        await asyncio.to_thread(ask_late)


async def test_it_works_where_the_thread_has_a_loop_already(stage: Stage) -> None:
    async def cell() -> int:
        with connect(kubeconfig=str(stage.cluster.kubeconfig)) as client:
            return len(client.nodes())

    assert await asyncio.to_thread(lambda: asyncio.run(cell())) == 2
