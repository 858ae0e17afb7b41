"""Who comes in, what they see, and that nothing gives their token away."""

import asyncio

import aiohttp
import pytest
import structlog
from local.web.browsing import open_window
from local.web.pages import Pages
from local.web.test_api import only_pods_of
from playwright.async_api import Browser, expect

from gpuloom.web.dashboard import streaming
from gpuloom.web.sessions import MOST_OF_ONE

FROM_HERE = {"Sec-Fetch-Site": "same-origin"}


async def sign_in(pages: Pages, token: str, **headers: str) -> aiohttp.ClientResponse:
    url = f"{pages.part.url}/sign-in"
    jar = aiohttp.DummyCookieJar()
    async with (
        aiohttp.ClientSession(cookie_jar=jar) as session,
        session.post(url, data={"token": token}, headers=headers or FROM_HERE, allow_redirects=False) as reply,
    ):
        await reply.read()
        return reply


async def see(pages: Pages, path: str, cookie: str, **headers: str) -> tuple[int, str]:
    url = f"{pages.part.url}{path}"
    sent = {"Cookie": f"gpuloom={cookie}", **headers}
    async with pages.session.get(url, headers=sent, allow_redirects=False) as reply:
        return reply.status, await reply.text()


async def cookie_of(pages: Pages, token: str = "") -> str:
    reply = await sign_in(pages, token or pages.site.server.token)
    assert reply.status == 303
    return str(reply.cookies["gpuloom"].value)


@pytest.mark.browser
async def test_a_wrong_token_is_refused_with_what_to_do(pages: Pages, browser: Browser) -> None:
    async with open_window(pages, browser) as window:
        await window.sign_in("wrong")
        await expect(window.page.get_by_role("alert")).to_contain_text("the API server does not know this token")
        assert "wrong" not in window.page.url
        await window.open("/nodes")
        await expect(window.title).to_have_text("Sign in")


@pytest.mark.browser
async def test_signing_in_leads_to_the_page_that_was_asked_for_and_out_to_none(pages: Pages, browser: Browser) -> None:
    async with open_window(pages, browser) as window:
        await window.sign_in(path="/nodes/n1")
        await expect(window.title).to_have_text("Node n1")
        async with window.page.expect_event("load"):
            await window.page.get_by_role("button", name="Sign out").click()
        await window.open("/nodes/n1")
        await expect(window.title).to_have_text("Sign in")


@pytest.mark.browser
async def test_who_may_see_one_namespace_sees_no_node_and_no_other_pod(scene: Pages, browser: Browser) -> None:
    somebody = scene.site.server.accounts.add("somebody", only_pods_of("other"))
    async with open_window(scene, browser) as window:
        await window.sign_in(somebody)
        await expect(window.title).to_have_text("Pending pods")
        await window.see("No pod waits for a card")
        await expect(window.page.get_by_role("link", name="Nodes")).to_have_count(0)
        for path in ("/nodes", "/cards/GPU-n1-0", "/pods/default/giant", "/pending?namespace=default"):
            assert await window.open(path) == 403
            await window.see("this needs the right to list")


@pytest.mark.browser
async def test_who_may_see_nodes_alone_sees_other_peoples_pods_as_amounts(scene: Pages, browser: Browser) -> None:
    somebody = scene.site.server.accounts.add("somebody", lambda verb, what, _: (verb, what) == ("list", "nodes"))
    async with open_window(scene, browser) as window:
        await window.sign_in(somebody, path="/cards/GPU-node-a-0003-4000-8000")
        row = window.page.get_by_role("row", name="a pod of another namespace").first
        await expect(row).to_contain_text("5.9 GiB")
        assert "notebook" not in await window.page.content()


def ask_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let streams look at rights with every beat, five times a second."""
    monkeypatch.setattr(streaming, "BEAT_S", 0.2)
    for module in ("serving.rights", "web.dashboard.streaming"):
        monkeypatch.setattr(f"gpuloom.{module}.REMEMBERED_S", 0.0)


@pytest.mark.browser
async def test_a_right_that_is_taken_away_ends_the_view(
    scene: Pages, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_again_at_once(monkeypatch)
    rights = {"nodes", "pods"}
    somebody = scene.site.server.accounts.add("somebody", lambda _verb, what, _: what in rights)
    async with open_window(scene, browser) as window:
        await window.sign_in(somebody, path="/nodes/node-a")
        await window.wait_live()
        rights.clear()
        await window.see("this needs the right to list nodes")


@pytest.mark.browser
async def test_a_page_outlives_a_failure_of_the_api_server_and_is_live_again(
    scene: Pages, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_again_at_once(monkeypatch)
    async with open_window(scene, browser) as window:
        await window.sign_in(path="/nodes/node-a")
        await window.wait_live()
        await window.page.evaluate("window.isTheSame = true")
        scene.site.fail("POST", "subjectaccessreviews", status=500, times=2)
        await expect(window.page.get_by_role("status").first).to_have_text("connection lost, trying again")
        await expect(window.page.get_by_role("status").first).to_have_text("live", timeout=30_000)
        assert await window.page.evaluate("window.isTheSame") is True


async def test_the_cookie_is_for_this_site_and_not_for_scripts(pages: Pages) -> None:
    cookie = (await sign_in(pages, pages.site.server.token)).cookies["gpuloom"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "/")
    assert pages.site.server.token not in cookie.value


async def test_a_form_of_another_site_signs_nobody_in(pages: Pages) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"X": "neither"}):
        reply = await sign_in(pages, pages.site.server.token, **headers)
        assert (reply.status, "gpuloom" in reply.cookies) == (403, False)


async def test_a_script_that_signs_in_is_told_how_it_sends_its_token(pages: Pages) -> None:
    told = await (await sign_in(pages, pages.site.server.token, X="no origin")).text()
    assert "a token is only taken from the form of this site" in told
    assert "scripts send it with each request, as Authorization: Bearer" in told
    assert "administrator" not in told


async def test_who_lacks_a_right_is_told_whom_to_ask(pages: Pages) -> None:
    somebody = pages.site.server.accounts.add("somebody", only_pods_of("other"))
    assert "Ask an administrator of the cluster for this right" in await pages.read("/nodes", who=somebody, expect=403)


async def test_an_old_browser_signs_in_by_its_origin(pages: Pages) -> None:
    reply = await sign_in(pages, pages.site.server.token, Origin=pages.part.url)
    assert reply.status == 303


async def test_another_site_cannot_use_the_session_to_send_something(pages: Pages) -> None:
    cookie = await cookie_of(pages)
    headers = {"Cookie": f"gpuloom={cookie}", "Sec-Fetch-Site": "cross-site"}
    url = f"{pages.part.url}/api/v1/fits"
    async with pages.session.post(url, json={"kind": "Pod"}, headers=headers) as reply:
        assert reply.status == 401
        assert "sent by another site" in await reply.text()


async def test_where_to_go_after_signing_in_is_never_another_site(pages: Pages) -> None:
    for after in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
        data = {"token": pages.site.server.token, "next": after}
        url = f"{pages.part.url}/sign-in"
        async with pages.session.post(url, data=data, headers=FROM_HERE, allow_redirects=False) as reply:
            assert reply.headers["Location"] == "/"


async def test_the_session_opens_the_api_too(pages: Pages) -> None:
    status, text = await see(pages, "/api/v1/overview", await cookie_of(pages))
    assert (status, '"cards":1' in text) == (200, True)


async def test_signing_out_ends_the_session_not_only_the_cookie(pages: Pages) -> None:
    cookie = await cookie_of(pages)
    headers = {"Cookie": f"gpuloom={cookie}", **FROM_HERE}
    async with pages.session.post(f"{pages.part.url}/sign-out", headers=headers, allow_redirects=False) as reply:
        assert reply.status == 303
    assert (await see(pages, "/api/v1/overview", cookie))[0] == 401


async def test_the_oldest_of_too_many_sessions_of_one_person_ends(pages: Pages) -> None:
    first = await cookie_of(pages)
    for _ in range(MOST_OF_ONE):
        last = await cookie_of(pages)
    assert (await see(pages, "/api/v1/overview", first))[0] == 401
    assert (await see(pages, "/api/v1/overview", last))[0] == 200


async def test_a_page_may_load_nothing_from_outside_and_run_no_inline_script(pages: Pages) -> None:
    headers = {"Cookie": f"gpuloom={await cookie_of(pages)}"}
    for path in ("/", "/sign-in", "/nodes/nobody"):
        async with pages.session.get(f"{pages.part.url}{path}", headers=headers) as reply:
            policy = reply.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert reply.headers["Cache-Control"] == "no-store"
            assert " style=" not in await reply.text()


async def test_tokens_are_in_no_log(pages: Pages) -> None:
    with structlog.testing.capture_logs() as said:
        await sign_in(pages, pages.site.server.token)
        await sign_in(pages, "a-wrong-token")
    assert [line["event"] for line in said] == ["signed in", "sign-in refused"]
    assert pages.site.server.token not in str(said)
    assert "a-wrong-token" not in str(said)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /api/v1/quotas HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n",
        b"GET /api/v1/quotas HTTP/1.1\r\nHost: x\r\nX-Gpuloom-Token: \xff\r\n\r\n",
        b"POST /sign-in HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 1\r\n\r\n\xff",
        b"POST /sign-in HTTP/1.1\r\nHost: x\r\nOrigin: http://[\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["token", "own header", "form", "origin"],
)
async def test_odd_bytes_are_refused_and_are_no_fault_of_ours(pages: Pages, raw: bytes) -> None:
    host, port = pages.part.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(raw)
    status = int((await reader.readline()).split()[1])
    writer.close()
    assert status in {401, 403}
