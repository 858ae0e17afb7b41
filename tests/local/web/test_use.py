"""What monitors say beside what is allocated; and monitors that hang, lie, refuse, or go away."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from local.scheduler.clock import poll
from local.scheduler.site import DEFAULTS, Site, card, open_site
from local.web.pages import Pages
from local.web.scenes import run_pod
from structlog.testing import capture_logs

from gpuloom.web.monitors import asking
from gpuloom.web.monitors.asking import MonitorAddress, MonitorClient
from gpuloom.web.monitors.book import UseBook
from gpuloom.web.server import WebPart, WebSettings
from gpuloom.wire.monitors import MOST_REPORT_BYTES, REPORT_PATH

MIB = 2**20
GOOD = {"uuid": "GPU-n1-0", "memoryBytes": 4000 * MIB, "busyPercent": 40}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Monitor:
    """A monitor of a node that answers as a test wants; ``tokens`` are those that it was shown."""

    def __init__(self) -> None:
        self.answer: Answer = self._answer_report
        self.report: Any = {"cards": [GOOD]}
        self.tokens: list[str | None] = []
        self.port = 0
        self.over = asyncio.Event()

    async def _answer_report(self, _request: web.Request) -> web.StreamResponse:
        body = self.report if isinstance(self.report, bytes) else json.dumps(self.report).encode()
        return web.Response(body=body)

    async def hang(self, _request: web.Request) -> web.StreamResponse:
        """Answer only when the test is over."""
        await self.over.wait()
        return web.Response()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization"))
        return await self.answer(request)


class Found(MonitorClient):
    """Finds the monitors of these nodes; asks as always."""

    def __init__(self, site: Site, token_file: str = "") -> None:
        super().__init__(site.client, "gpu-system", token_file)
        self.nodes: dict[str, int] = {}

    async def find(self) -> list[MonitorAddress]:
        return [MonitorAddress(node, f"gpu-system/{node}", "127.0.0.1", port) for node, port in self.nodes.items()]


class Used(Pages):
    """Pages over monitors that are asked every minute of the test's clock."""

    monitor: Monitor
    found: Found

    async def ask(self) -> None:
        """Let all monitors be asked once more."""
        before = self.rounds
        await poll(lambda: self.rounds > before)

    @property
    def rounds(self) -> int:
        return len(self.monitor.tokens)


@pytest.fixture
async def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Used]:
    monkeypatch.setattr(asking, "TIMEOUT_S", 0.3)
    monitor = Monitor()
    app = web.Application()
    app.router.add_get(REPORT_PATH, monitor.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    async with AsyncExitStack() as stack:
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        stack.callback(monitor.over.set)
        monitor.port = runner.addresses[0][1]
        site = await stack.enter_async_context(open_site(tmp_path))
        await site.start()
        await site.process.wait_synced()
        await site.register("n1", card("n1"), card("n1", 1))
        found = await stack.enter_async_context(Found(site))
        found.nodes = {"n1": monitor.port}
        settings = WebSettings(web_bind="127.0.0.1:0", monitor_interval_s=0.1)
        part = await stack.enter_async_context(WebPart(settings, site.process.parts, site.client, monitors=found))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        pages = Used(site, part, session)
        pages.monitor, pages.found = monitor, found
        yield pages


async def see_until(pages: Pages, path: str, is_seen: Callable[[Any], bool]) -> Any:
    """Return what a path answers once it is as wanted."""
    seen: list[Any] = [await pages.see(path)]
    async with asyncio.timeout(60):
        for _ in range(400):
            if is_seen(seen[-1]):
                break
            await asyncio.sleep(0.05)
            seen.append(await pages.see(path))
    assert is_seen(seen[-1]), seen[-1]
    return seen[-1]


async def see_use(pages: Used, uuid: str = "GPU-n1-0") -> Any:
    """Return the use of a card once a monitor has been asked twice since now."""
    before = pages.rounds
    await poll(lambda: pages.rounds >= before + 2)
    return (await pages.see(f"/cards/{uuid}"))["used"]


async def test_a_card_shows_what_is_used_and_its_hour(used: Used) -> None:
    seen = (await see_until(used, "/cards/GPU-n1-0", lambda one: bool(one.get("used"))))["used"]
    assert (seen["memory"], seen["busyPercent"]) == ({"used": 4000, "total": 10000}, 40)
    assert (len(seen["memoryHour"]), seen["memoryHour"][-1], seen["memoryHour"][0]) == (60, 40, None)


async def test_a_node_and_the_overview_add_up_the_known_cards_alone(used: Used) -> None:
    seen = await see_until(used, "/overview", lambda one: bool(one.get("used")))
    assert (seen["used"]["memory"], seen["used"]["cards"]) == ({"used": 4000, "total": 10000}, 1)
    (node,) = (await used.see("/nodes"))["items"]
    assert node["used"]["memory"] == {"used": 4000, "total": 10000}
    assert "memoryHour" not in node["used"]


async def test_a_figure_that_is_missing_is_no_zero(used: Used) -> None:
    await see_until(used, "/cards/GPU-n1-0", lambda one: bool(one.get("used")))
    assert (await used.see("/cards/GPU-n1-1"))["used"] == {}
    assert "use not known" in await used.read("/cards/GPU-n1-1")


async def test_a_use_of_nothing_is_a_zero(used: Used) -> None:
    used.monitor.report = {"cards": [{"uuid": "GPU-n1-0", "memoryBytes": 0, "busyPercent": 0}]}
    seen = await see_until(used, "/cards/GPU-n1-0", lambda one: one.get("used", {}).get("busyPercent") == 0)
    assert seen["used"]["memory"] == {"used": 0, "total": 10000}


async def test_a_pod_shows_what_it_uses_of_what_it_has(used: Used) -> None:
    await run_pod(used.site, "p", "n1", memory_mib=3000)
    uuid = (await used.see("/pods"))["items"][0]["shares"][0]["uuid"]
    pod = {"namespace": "default", "name": "p", "uuid": uuid, "memoryBytes": 1000 * MIB, "busyPercent": 7}
    used.monitor.report = {"pods": [pod, pod | {"name": "other"}]}
    seen = await see_until(used, "/pods", lambda found: bool(found["items"][0].get("used")))
    assert seen["items"][0]["used"]["memory"] == {"used": 1000, "total": 3000}
    assert (await used.see(f"/cards/{uuid}"))["holders"][0]["used"]["busyPercent"] == 7


@pytest.mark.parametrize(
    "card_said",
    [
        {"memoryBytes": 10001 * MIB, "busyPercent": 101},
        {"memoryBytes": -1, "busyPercent": -1},
        {"memoryBytes": 2**62, "busyPercent": 2**62},
    ],
    ids=["more than the card has", "less than nothing", "huge"],
)
async def test_figures_that_a_card_cannot_have_are_not_shown(used: Used, card_said: Any) -> None:
    await see_until(used, "/cards/GPU-n1-0", lambda one: bool(one.get("used")))
    used.monitor.report = {"cards": [{"uuid": "GPU-n1-0", **card_said}]}
    assert await see_use(used) == {}


async def test_a_monitor_tells_nothing_of_other_nodes_cards(used: Used) -> None:
    await used.site.register("n2", card("n2"))
    used.monitor.report = {"cards": [{**GOOD, "uuid": "GPU-n2-0"}, GOOD]}
    await see_until(used, "/cards/GPU-n1-0", lambda one: bool(one.get("used")))
    assert (await used.see("/cards/GPU-n2-0"))["used"] == {}


async def test_after_a_round_that_fails_by_a_fault_of_gpuloom_the_next_is_made(
    used: Used, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[bool] = []

    async def fail() -> list[MonitorAddress]:
        failed.append(True)
        raise RuntimeError("a fault")

    with capture_logs() as logs, monkeypatch.context() as broken:
        broken.setattr(used.found, "find", fail)
        await poll(lambda: bool(failed))
    await used.ask()
    assert next(entry["what"] for entry in logs if "by a fault of gpuloom" in entry["event"]) == "monitors"
    await see_until(used, "/cards/GPU-n1-0", lambda one: bool(one.get("used")))


async def refuse(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPUnauthorized


async def flood(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b" " * (MOST_REPORT_BYTES + 1))


async def lead_away(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/elsewhere")


async def say_nan(_request: web.Request) -> web.StreamResponse:
    return web.Response(body=b'{"cards": [{"uuid": "GPU-n1-0", "memoryBytes": NaN}]}')


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refuse, "answers 401"),
        (flood, "answers more than 262,144 bytes"),
        (lead_away, "answers 302"),
        (say_nan, "cannot be asked"),
    ],
)
async def test_a_monitor_that_does_not_answer_well_is_named(used: Used, answer: Answer, words: str) -> None:
    used.monitor.answer = answer
    seen = await see_until(used, "/overview", lambda one: "do not answer" in one.get("whyNotUsed", ""))
    assert seen["whyNotUsed"].startswith("1 of 1 monitors do not answer: the monitor of node n1 ")
    assert words in seen["whyNotUsed"]
    assert words in await used.read("/nodes")


async def test_the_pod_of_a_monitor_is_named_to_administrators_alone(used: Used) -> None:
    with capture_logs() as logs:
        used.monitor.answer = refuse
        seen = await see_until(used, "/overview", lambda one: "do not answer" in one.get("whyNotUsed", ""))
    assert "gpu-system" not in seen["whyNotUsed"]
    assert [line.get("pod") for line in logs if line["event"] == "monitors do not answer"] == ["gpu-system/n1"]
    for page in ("/", "/nodes", "/nodes/n1", "/pods"):
        assert "gpu-system" not in await used.read(page)


async def test_why_nothing_is_known_is_said_until_the_next_round_has_ended(used: Used) -> None:
    used.monitor.answer = refuse
    await see_until(used, "/overview", lambda one: "answers 401" in one.get("whyNotUsed", ""))
    used.monitor.answer = used.monitor.hang
    asked = len(used.monitor.tokens)
    await poll(lambda: len(used.monitor.tokens) > asked)
    assert "answers 401" in (await used.see("/overview")).get("whyNotUsed", "")


async def test_a_monitor_that_hangs_keeps_no_other_waiting(used: Used) -> None:
    used.monitor.answer = used.monitor.hang
    await used.ask()
    await used.site.register("n2", card("n2"))
    other = Monitor()
    other.report = {"cards": [{**GOOD, "uuid": "GPU-n2-0"}]}
    app = web.Application()
    app.router.add_get(REPORT_PATH, other.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        used.found.nodes["n2"] = runner.addresses[0][1]
        await see_until(used, "/cards/GPU-n2-0", lambda one: bool(one.get("used")))
    finally:
        await runner.cleanup()


async def test_old_figures_go(used: Used) -> None:
    await see_until(used, "/cards/GPU-n1-0", lambda one: bool(one.get("used")))
    used.monitor.answer = refuse
    used.site.clock.elapsed_s += 3600 / 2
    await see_until(used, "/cards/GPU-n1-0", lambda one: one.get("used") == {})


def has_answered(book: UseBook, node: str, _seen: Any) -> bool:
    return book.answered(node) > 0


def is_forgotten(book: UseBook, node: str, _seen: Any) -> bool:
    return book.answered(node) == 0


async def test_what_is_held_is_bounded_while_nodes_come_and_go(used: Used) -> None:
    book = used.part._source.book
    for number in range(3):
        name = f"m{number}"
        await used.site.register(name, card(name))
        used.found.nodes = {"n1": used.monitor.port, name: used.monitor.port}
        await see_until(used, "/overview", partial(has_answered, book, name))
        await used.site.annotate(name, {"hami.io/node-nvidia-register": "[]"})
        await see_until(used, "/overview", partial(is_forgotten, book, name))
    assert book.answered("n1") > 0


async def test_the_token_of_the_file_is_shown_to_monitors(used: Used, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("for-monitors\n")
    client = Found(used.site, str(token))
    assert client._authorize() == {"Authorization": "Bearer for-monitors"}


async def test_pages_without_monitors_say_so(pages: Pages) -> None:
    assert "the scheduler asks no monitors (--monitor-interval)" in await pages.read("/nodes")
    assert "used" not in (await pages.see("/cards"))["items"][0]


async def test_the_namespace_of_monitors_has_to_be_known(pages: Pages) -> None:
    assert DEFAULTS.pod_namespace == ""
    settings = WebSettings(web_bind="127.0.0.1:0", monitor_interval_s=60)
    with pytest.raises(Exception, match="set POD_NAMESPACE"):
        async with WebPart(settings, pages.site.process.parts, pages.site.client):
            pass
