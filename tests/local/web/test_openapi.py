"""What the answers of the API say of themselves, and the description of all of them."""

import json
import re

import msgspec
import pytest
from aiohttp import web
from local.web.pages import Pages

from gpuloom.serving.rights import Rights
from gpuloom.web.api import WebApi
from gpuloom.web.entrance import Entrance
from gpuloom.web.operations import OPERATIONS, Operation
from gpuloom.web.pacing import Pace
from gpuloom.web.sessions import Sessions
from gpuloom.web.views.source import Source
from gpuloom.wire.words import decode_time, encode_time, encode_unix_time


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.method == "get" and "{" not in one.path])
async def test_an_answer_says_what_it_is(scene: Pages, operation: Operation) -> None:
    seen = await scene.see(operation.path)
    assert (seen["kind"], seen["apiVersion"]) == (operation.answer_kind, "gpuloom.io/v1")
    for item in seen["items"] if operation.is_list else [seen]:
        msgspec.convert(item, operation.answer)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/nodes/node-a", "NodeDetail"),
        ("/cards/GPU-node-a-0000-4000-8000", "Card"),
        ("/decisions/1", "Decision"),
        ("/explain/default/giant", "Explanation"),
        ("/preempt/default/giant", "Preemption"),
    ],
)
async def test_an_answer_about_one_thing_says_what_it_is(scene: Pages, path: str, kind: str) -> None:
    assert (await scene.see(path))["kind"] == kind


async def test_times_are_rfc_3339(scene: Pages) -> None:
    now = encode_time(scene.site.process.parts.clocks.now())
    (pod, *_) = (await scene.see("/pods"))["items"]
    (decision, *_) = (await scene.see("/decisions"))["items"]
    held = (await scene.see("/explain/default/notebook-1"))["held"]
    assert (pod["since"], held["decidedAt"]) == (now, now)
    assert decode_time(decision["at"]) == decode_time(now)


async def test_the_description_of_the_api_is_open_to_everybody_and_complete(pages: Pages) -> None:
    async with pages.session.get(f"{pages.part.url}/openapi.json") as reply:
        document = await reply.json()
    components = document["components"]["schemas"]
    named = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert named <= set(components)
    served = {route.path.removeprefix("/api/v1") for route in api_routes(pages) if route.path.startswith("/api/v1/")}
    assert set(document["paths"]) == served
    ids = [way["operationId"] for path in document["paths"].values() for way in path.values()]
    assert len(set(ids)) == len(ids)
    assert components["PodView"]["properties"]["standing"] == {"enum": ["bound", "reserved"]}
    assert components["Held"]["properties"]["decidedAt"]["format"] == "date-time"
    assert components["NominationView"]["properties"]["since"]["format"] == "date-time"
    assert "ended" in components["Explanation"]["properties"]["outcome"]["enum"]


def api_routes(pages: Pages) -> list[web.RouteDef]:
    api = WebApi(
        Source(pages.site.process.parts), Rights(pages.site.client), Entrance(Sessions(), is_tls=False), Pace()
    )
    return api.routes()


@pytest.mark.parametrize(("seconds", "text"), [(0, ""), (1, "1970-01-01T00:00:01Z"), (10**18, "")])
def test_unix_seconds_of_no_calendar_are_not_told(seconds: int, text: str) -> None:
    assert encode_unix_time(seconds) == text
