import asyncio
from html import escape as escape_text
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from local.scheduler.clock import poll
from local.scheduler.site import REGISTER, card
from local.web.pages import Pages
from local.web.scenes import run_pod
from yarl import URL

from gpuloom.engine.explanation.text import tell_vendor
from gpuloom.engine.explanation.values import Explanation
from gpuloom.kube import NODES, PODS, KubeClient, Resource, UnreadableError
from gpuloom.local.apiserver.faults import InjectedFault
from gpuloom.local.manifests import pod_manifest
from gpuloom.scheduler.pods.pending import REFUSED_BEFORE, read_last_words
from gpuloom.scheduler.recording.lines import decode_line
from gpuloom.serving.addresses import CannotServeError
from gpuloom.serving.rights import REMEMBERED_S
from gpuloom.web.api import MOST_OF_ONE
from gpuloom.web.server import WebPart, WebSettings
from gpuloom.wire.objects import KubeObject, Pod
from gpuloom.wire.register import encode_register


def escape(text: str) -> str:
    """Write a text as it stands in a page."""
    return escape_text(text, quote=False).replace("'", "&#39;")


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", KubeObject, namespaced=False)


def only_pods_of(namespace: str):
    return lambda verb, resource, where: (verb, resource, where) == ("list", "pods", namespace)


async def test_many_questions_of_a_namespaces_accounts_keep_nobody_else_waiting(pages: Pages) -> None:
    """trust T-09."""
    names = [f"system:serviceaccount:evil:a{at}" for at in range(20)]
    accounts = pages.site.server.accounts
    greedy = [accounts.add(name, only_pods_of("default")) for name in names]
    other = accounts.add("other", only_pods_of("default"))
    fault = pages.site.fail("GET", "/pods/absent", delay_s=1, times=100)
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(pages.get("/explain/default/absent", who=who)) for who in greedy]
        await poll(lambda: fault.times == 100 - MOST_OF_ONE)
        assert await pages.see("/pods?namespace=default", who=other)
        assert fault.times == 100 - MOST_OF_ONE
        for task in asking:
            task.cancel()


async def test_the_overview_sums_up_cards_and_pods(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit())
    seen = await pages.see("/overview")
    assert seen["memory"] == {"used": 3000, "total": 10000}
    assert (seen["cards"], seen["podsReserved"], seen["models"][0]["model"]) == (1, 1, "NVIDIA A40")


async def test_idle_are_cards_that_pods_could_get(pages: Pages) -> None:
    await pages.site.register("n2", card("n2"), card("n2", 1, healthy=False))
    assert (await pages.see("/overview"))["idle"] == 2
    await pages.site.client.patch(NODES, "n2", {"spec": {"unschedulable": True}})
    await poll(lambda: pages.site.process.state.shown.nodes["n2"].spec.unschedulable)
    assert (await pages.see("/overview"))["idle"] == 1


async def test_a_card_shows_who_is_on_it(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit("holder"))
    seen = await pages.see("/cards/GPU-n1-0")
    (holder,) = seen["holders"]
    assert holder["pod"] == {"namespace": "default", "name": "holder"}
    assert (holder["memoryMib"], holder["standing"], holder["containers"]) == (3000, "reserved", ["main"])


@pytest.mark.parametrize("name", ["GPU-n1-0", "gpu-n1", "card/GPU-n1-0", "n1/0", " n1/0 "])
async def test_the_pages_lead_from_what_a_card_is_called_to_its_page(pages: Pages, name: str) -> None:
    assert "<title>Card GPU-n1-0" in await pages.read(f"/cards?name={name}")


@pytest.mark.parametrize(
    ("name", "told"), [("n1/7", "node n1 has no card with index 7"), ("n9/0", "no node n9"), ("x", "has a card x")]
)
async def test_the_pages_say_that_there_is_no_card_called_so(pages: Pages, name: str, told: str) -> None:
    assert told in await pages.read(f"/cards?name={name}", expect=404)


async def test_no_cards_name_leads_out_of_the_cards(pages: Pages) -> None:
    assert "no node has a card" in await pages.read("/cards?name=%2F%2Fexample.com%3Fx", expect=404)
    assert "<title>Nodes" in await pages.read("/cards?name=")


async def test_a_nodes_name_leads_to_its_cards(pages: Pages) -> None:
    assert "<title>Node n1" in await pages.read("/cards?name=n1")


@pytest.mark.parametrize("path", ["/cards/GPU-n1", "/cards/GPU-n1-0"])
async def test_the_beginning_of_a_uuid_names_a_card_where_no_other_begins_so(pages: Pages, path: str) -> None:
    await pages.site.register("n2")
    assert (await pages.see(path))["uuid"] == "GPU-n1-0"
    status, told = await pages.get("/cards/GPU-n")
    assert (status, told["message"][:33]) == (400, "GPU-n is the beginning of 2 cards")


async def test_a_card_is_found_by_node_and_index(pages: Pages) -> None:
    await pages.site.register("n2")
    assert (await pages.see("/cards/n2/0"))["uuid"] == "GPU-n2-0"
    answers = [await pages.get(path) for path in ("/cards/n2/7", "/cards/n3/0", "/cards/n2")]
    assert [(status, told["message"]) for status, told in answers] == [
        (404, "node n2 has no card with index 7"),
        (404, "there is no node n3"),
        (404, "no node has a card n2; n2 is a node"),
    ]


async def test_a_node_without_cards_says_why(pages: Pages) -> None:
    await pages.site.register("empty", text="[]")
    items = (await pages.see("/nodes"))["items"]
    problems = {node["name"]: node.get("problem", "") for node in items}
    assert "names no card" in problems["empty"]
    assert problems["n1"] == ""


async def test_a_node_whose_cards_are_gone_still_tells_its_pods_and_its_lock(pages: Pages) -> None:
    pod = await pages.site.submit("holder")
    await pages.site.choose(pod)
    assert await pages.site.bind(pod) == ""
    await pages.site.wait_bound(pod)
    await pages.site.annotate("n1", {REGISTER: "[]"})
    await poll(lambda: not pages.site.process.state.cluster.has("n1"))
    seen = (await pages.see("/nodes/n1"))["node"]
    assert ("cards" in seen, seen["pods"], seen["lock"]["pod"]["name"]) == (False, 1, "holder")


async def test_a_pod_that_waits_says_what_it_asks_and_why(pages: Pages) -> None:
    assert await pages.site.choose(await pages.site.submit("big", memory_mib=20000)) is None
    (waiting,) = (await pages.see("/pending"))["items"]
    assert waiting["pod"]["name"] == "big"
    assert waiting["reasons"][0]["reason"] == "CardInsufficientMemory"
    assert (waiting["waitingS"] >= 0, waiting["cause"]) == (True, "cards")


async def test_a_pod_with_a_mistyped_resource_alone_waits_too(pages: Pages) -> None:
    offered = {"status": {"allocatable": {"nvidia.com/mig-1g.5gb": "7"}}}
    await pages.site.wait_for_node(await pages.site.client.patch(NODES, "n1", offered, subresource="status"))
    mistyped = await submit_asking(pages, "mistyped", "nvidia.com/gpumems")
    await submit_asking(pages, "of-another-plugin", "nvidia.com/mig-1g.5gb")
    (waiting,) = (await pages.see("/pending"))["items"]
    assert (waiting["pod"]["name"], waiting["cause"], "fits" in waiting) == ("mistyped", "unseen", False)
    assert "no node has nvidia.com/gpumems" in waiting["headline"]
    assert waiting["headline"].endswith("did you mean nvidia.com/gpumem?")
    await pages.site.remove(mistyped)
    await catch_up(pages)
    assert (await pages.see("/pending"))["items"] == []


async def submit_asking(pages: Pages, name: str, resource: str) -> Pod:
    """Create a pod that asks for one of a resource."""
    manifest = pod_manifest(name)
    manifest["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    pod = await pages.site.client.create(PODS, manifest, namespace="default")
    await catch_up(pages)
    return pod


async def catch_up(pages: Pages) -> None:
    """Wait until the watch has shown all pods: it shows them in order."""
    await pages.site.remove(await pages.site.submit("last"))


async def test_an_explanation_is_the_engines_value(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit("big", memory_mib=20000))
    seen = msgspec.convert(await pages.see("/explain/default/big"), Explanation)
    assert (seen.outcome, seen.nodes[0].cards[0].why) == ("does not fit", "asks 20,000 MiB; 10,000 of 10,000 free")


async def test_a_pod_of_two_vendors_is_told_in_the_same_words_in_json_and_on_its_page(pages: Pages) -> None:
    dcu = encode_register([card("n2", memory_mib=4000)])
    await pages.site.register("n2", annotations={"hami.io/node-dcu-register": dcu})
    limits = ({"nvidia.com/gpu": "1"}, {"hygon.com/dcunum": "1", "hygon.com/dcumem": "8000"})
    containers = [{"name": f"c{at}", "image": "i", "resources": {"limits": one}} for at, one in enumerate(limits)]
    await pages.site.submit("both", spec={"containers": containers})
    seen = msgspec.convert(await pages.see("/explain/default/both"), Explanation)
    assert [(one.vendor, one.standing) for one in seen.vendors] == [("DCU", "in the way"), ("NVIDIA", "satisfied")]
    page = await pages.read("/pods/default/both")
    assert [one.vendor for one in seen.vendors if tell_vendor(one) not in page] == []


async def test_a_node_that_kube_scheduler_left_out_is_told(pages: Pages) -> None:
    await pages.site.register("n2")
    await pages.site.choose(await pages.site.submit("big", memory_mib=20000), "n1")
    seen = await pages.see("/explain/default/big")
    (left_out,) = [node for node in seen["nodes"] if node["name"] == "n2"]
    assert "kube-scheduler did not offer the node" in left_out["causes"][0]


@pytest.mark.parametrize(("started", "closes"), [(None, False), ("2026-01-01T00:00:00Z", True)])
async def test_a_foreign_pod_is_told_why_it_is_not_ours_and_what_to_do(pages: Pages, started, closes) -> None:
    """trust T-03."""
    manifest = pod_manifest("foreign", memory_mib=100)
    manifest["spec"] |= {"nodeName": "n1", "schedulerName": "default-scheduler"}
    pod = await pages.site.client.create(PODS, manifest, namespace="default")
    status = {"status": {"phase": "Pending", "startTime": started}}
    await pages.site.wait_for_pod(await pages.site.change_pod("foreign", status, subresource="status"))
    seen = msgspec.convert(await pages.see(f"/explain/default/{pod.name}"), Explanation)
    assert (seen.outcome, "came to node n1 past the scheduler" in seen.headline) == ("foreign", True)
    assert ("all NVIDIA cards of the node are closed" in seen.headline) == closes
    assert "create it again without spec.nodeName" in seen.notes[0]
    assert "came to node n1 past the scheduler" in await pages.read("/pods/default/foreign")


async def test_an_unknown_pod_is_not_found(pages: Pages) -> None:
    status, seen = await pages.get("/explain/default/nobody")
    assert (status, seen["reason"]) == (404, "NotFound")
    assert "default/nobody" in seen["message"]


async def test_a_pod_that_cannot_be_read_is_named_and_is_no_outage(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(*_: Any, **__: Any) -> None:
        raise UnreadableError("get", "Pod default/odd", 0, "the answer cannot be read: Expected `str`")

    monkeypatch.setattr(KubeClient, "get", get)
    status, seen = await pages.get("/explain/default/odd")
    assert (status, seen["reason"]) == (422, "Invalid")
    assert seen["message"] == "pod default/odd: the answer cannot be read: Expected `str`"


async def test_fits_counts_how_many_there_is_room_for(pages: Pages) -> None:
    status, seen = await pages.post("/fits?namespace=default", pod_manifest("x", memory_mib=3000))
    assert status == 200
    assert (seen["pods"], seen["rooms"]) == (3, [{"node": "n1", "pods": 3}])


async def test_fits_completes_the_pod_as_the_webhook_would(pages: Pages) -> None:
    manifest = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpumem": "3000"}}}]}}
    _, seen = await pages.post("/fits", manifest)
    assert seen["explanation"]["asks"][0]["memoryMib"] == 3000


async def test_fits_tells_what_the_webhook_has_against_it(pages: Pages) -> None:
    _, seen = await pages.post("/fits", {"spec": {"containers": []}})
    assert seen["denied"] == "pod has no containers"


@pytest.mark.parametrize(
    ("resource", "amount", "what"),
    [
        ("nvidia.com/gpu", "abc", "quantities must match the regular expression '"),
        ("nvidia.com/gpu", "two", "quantities must match the regular expression '"),
        ("cpu", "abc", "quantities must match the regular expression '"),
        ("nvidia.com/gpu", -1, "must be greater than or equal to 0"),
        ("cpu", "-1", "must be greater than or equal to 0"),
        ("nvidia.com/gpu", 1.5, "must be an integer"),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
async def test_fits_refuses_amounts_that_an_api_server_refuses(
    pages: Pages, resource: str, amount: str | float, what: str, field: str
) -> None:
    wrong = {"name": "odd", "resources": {"limits": {resource: amount}}}
    _, seen = await pages.post("/fits", {"spec": {"containers": [{"name": "main"}], field: [wrong]}})
    where = f'spec.{field}[0].resources.limits[{resource}]: Invalid value: "{amount}"'
    assert seen["denied"].startswith(f"the API server refuses it: container odd: {where}: {what}")
    assert "explanation" not in seen


async def test_fits_refuses_requests_that_an_api_server_refuses(pages: Pages) -> None:
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
    _, seen = await pages.post("/fits", {"spec": {"containers": [{"name": "main", "resources": resources}]}})
    assert seen["denied"].endswith('requests: Invalid value: "2": must be less than or equal to cpu limit of 1')


async def test_what_is_no_pod_is_refused(pages: Pages) -> None:
    status, seen = await pages.post("/fits", {"kind": "Deployment"})
    assert (status, seen["message"]) == (400, "this is a Deployment, not a Pod: give the pod of its template")


async def test_decisions_are_told_newest_first(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit("small"))
    await pages.site.choose(await pages.site.submit("big", memory_mib=20000))
    items = (await pages.see("/decisions"))["items"]
    assert [(one["pod"]["name"], one.get("node", "")) for one in items] == [("big", ""), ("small", "n1")]
    one = await pages.see(f"/decisions/{items[0]['number']}")
    assert one["refused"][0]["text"] == "1/1 CardInsufficientMemory"


async def test_a_decision_that_found_a_node_says_that_other_nodes_reasons_were_not_looked_for(pages: Pages) -> None:
    await pages.site.register("n2", card("n2", memory_mib=10))
    await pages.site.choose(await pages.site.submit("small"), "n1", "n2")
    assert "1 node not looked into" in await pages.read("/decisions")
    assert "Why 1 other node did not fit was not looked into" in await pages.read("/decisions/1")


async def test_a_decision_that_is_not_remembered_and_one_that_is_none_are_told_apart(pages: Pages) -> None:
    status, seen = await pages.get("/decisions/30")
    assert (status, seen["message"]) == (404, "decision 30 is not remembered: only the last ones are")
    assert "decision abc: must be a number" in await pages.read("/decisions/abc", expect=400)
    assert "decision 30 is not remembered" in await pages.read("/decisions/30", expect=404)


@pytest.mark.parametrize(("limit", "count"), [("0", 0), ("1", 1), ("9" * 5000, 2), ("0" * 5000, 0)])
async def test_as_many_items_are_told_as_are_wanted(pages: Pages, limit: str, count: int) -> None:
    await pages.site.choose(await pages.site.submit("one"))
    await pages.site.choose(await pages.site.submit("other"))
    assert len((await pages.see(f"/decisions?limit={limit}"))["items"]) == count


async def test_decisions_are_told_until_there_are_no_more(pages: Pages) -> None:
    pod = await pages.site.submit("big", memory_mib=20000)
    for _ in range(60):
        await pages.site.choose(pod)
    assert len((await pages.see("/decisions"))["items"]) == 60
    assert len((await pages.see("/decisions?limit=55"))["items"]) == 55


async def test_a_recording_ends_with_the_question(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit("big", memory_mib=20000))
    headers = {"Authorization": f"Bearer {pages.site.server.token}"}
    async with pages.session.get(f"{pages.part.url}/api/v1/recording?pod=default/big", headers=headers) as reply:
        lines = (await reply.read()).splitlines()
    kinds = [type(decode_line(line)).__name__ for line in lines]
    assert (kinds[0], kinds[-1]) == ("SettingsLine", "FilterLine")


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_nobody_comes_in_without_a_good_token(pages: Pages, token: str) -> None:
    """binding 6 dashboard."""
    async with pages.session.get(
        f"{pages.part.url}/api/v1/overview", headers={"Authorization": f"Bearer {token}"} if token else {}
    ) as reply:
        assert reply.status == 401


async def test_who_may_not_list_nodes_sees_none(pages: Pages) -> None:
    somebody = pages.site.server.accounts.add("somebody", only_pods_of("default"))
    for path in ("/overview", "/nodes", "/cards", "/nodes/n1"):
        assert (await pages.get(path, who=somebody))[0] == 403


async def test_pods_of_other_namespaces_are_left_out(pages: Pages) -> None:
    """binding 6 dashboard."""
    await pages.site.choose(await pages.site.submit("theirs"))
    somebody = pages.site.server.accounts.add("somebody", only_pods_of("other"))
    assert (await pages.see("/pods", who=somebody))["items"] == []
    assert (await pages.get("/explain/default/theirs", who=somebody))[0] == 403


async def test_the_proxys_header_signs_in_as_well(pages: Pages) -> None:
    headers = {"X-Gpuloom-Token": pages.site.server.token}
    async with pages.session.get(f"{pages.part.url}/api/v1/overview", headers=headers) as reply:
        assert reply.status == 200


async def test_the_api_server_is_asked_once_for_many_requests(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    create = KubeClient.create

    async def count(client, resource, body, **kind):
        asked.append(resource.kind)
        return await create(client, resource, body, **kind)

    monkeypatch.setattr(KubeClient, "create", count)
    for _ in range(5):
        await pages.see("/overview")
    assert sorted(asked) == ["SubjectAccessReview", "SubjectAccessReview", "TokenReview"]
    assert REMEMBERED_S <= 10


async def test_an_address_beyond_loopback_needs_a_certificate(pages: Pages) -> None:
    site = pages.site
    with pytest.raises(CannotServeError, match="--web-bind"):
        async with WebPart(WebSettings(web_bind="0.0.0.0:0"), site.process.parts, site.client):
            pass


async def test_a_bound_pod_tells_what_it_asked_for_and_has(pages: Pages) -> None:
    pod = await pages.site.submit("runs")
    await pages.site.choose(pod)
    await pages.site.call(
        "bind", {"PodName": "runs", "PodNamespace": "default", "PodUID": pod.metadata.uid, "Node": "n1"}
    )
    await poll(lambda: bool(pages.site.process.state.shown.pods[pod.metadata.uid].spec.node_name))
    seen = await pages.see("/explain/default/runs")
    assert (seen["outcome"], seen["held"]["node"], seen["held"]["shares"][0]["memoryMib"]) == ("bound", "n1", 3000)
    (row,) = (await pages.see("/pods"))["items"]
    (holder,) = (await pages.see("/cards/GPU-n1-0"))["holders"]
    names = [seen["held"]["shares"][0]["container"], row["shares"][0]["container"], *holder["containers"]]
    assert names == ["main"] * 3
    assert seen["nodes"][0]["cards"][0]["chosen"]


async def test_who_is_on_a_card_is_not_named_to_those_who_may_not_see_them(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit("secret"))
    somebody = pages.site.server.accounts.add(
        "somebody", lambda verb, resource, _: (verb, resource) == ("list", "nodes")
    )
    (holder,) = (await pages.see("/cards/GPU-n1-0", who=somebody))["holders"]
    assert (holder["pod"], holder["memoryMib"]) == ({}, 3000)
    assert "containers" not in holder


async def test_pods_in_the_way_are_not_named_to_those_who_may_not_see_them(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit("secret"))
    await pages.site.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    await pages.site.client.create(
        PODS, {**pod_manifest("big", memory_mib=9000), "metadata": {"name": "big"}}, namespace="other"
    )
    await poll(lambda: any(pod.name == "big" for pod in pages.site.process.state.shown.pods.values()))
    somebody = pages.site.server.accounts.add("somebody", only_pods_of("other"))
    seen = await pages.see("/explain/other/big", who=somebody)
    assert [one["text"] for one in seen["remedies"]] == [
        "fits if 2,000 MiB more were free on card GPU-n1-0 of n1",
        "would fit on n1 without a pod of another namespace",
        "would fit on n1 with 7,000 MiB at most",
    ]
    assert "secret" not in msgspec.json.encode(seen).decode()


async def test_a_node_that_is_closed_to_pods_does_not_fit_and_says_so(pages: Pages) -> None:
    await pages.site.client.patch(NODES, "n1", {"spec": {"unschedulable": True}})
    await poll(lambda: pages.site.process.state.shown.nodes["n1"].spec.unschedulable)
    await pages.site.submit("small")
    seen = await pages.see("/explain/default/small")
    assert seen["outcome"] == "does not fit"
    assert seen["nodes"][0]["causes"] == ["the node is closed to new pods (kubectl cordon)"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/pods?limit=-1", "limit=-1: must be a whole number of 0 or more"),
        ("/explain/default/p?nodes=some", "nodes=some: must be a whole number of 0 or more"),
        ("/decisions/abc", "decision abc: must be a number; the list of decisions has those that are remembered"),
        ("/pods?limt=1", "limt: there is no such parameter of /pods; it takes namespace, limit"),
        ("/cards?node=mars", "node: there is no such parameter of /cards; it takes none"),
        ("/explain/default/small?node=n1&node=mars", "there is no node mars"),
        ("/pods?limit=1&limit=x", "limit: may be given once"),
        ("/recording?limit=1", "limit: there is no such parameter of /recording; it takes pod"),
        ("/recording?pod=small", "pod=small: must be NAMESPACE/NAME"),
        ("/recording?pod=default/", "pod=default/: must be NAMESPACE/NAME"),
        ("/recording?pod=//", "pod=//: must be NAMESPACE/NAME"),
    ],
)
async def test_what_the_api_does_not_take_is_refused_not_passed_over(pages: Pages, path: str, told: str) -> None:
    await pages.site.submit("small")
    status, seen = await pages.get(path)
    assert (status, seen["reason"], seen["message"]) == (400, "BadRequest", told)


@pytest.mark.parametrize("name", ["small%2Fstatus", "%2F", "..%2F..%2Fother%2Fpods%2Fsmall", "small%25"])
async def test_what_cannot_be_the_name_of_a_pod_is_none(pages: Pages, name: str) -> None:
    """The API server would take it for another path."""
    await pages.site.submit("small")
    pages.site.fail("GET", "/namespaces/default/pods/", status=500)
    for path in (f"explain/default/{name}", f"preempt/default/{name}", f"recording?pod=default/{name}"):
        url = URL(f"{pages.part.url}/api/v1/{path}", encoded=True)
        async with pages.session.get(url, headers={"Authorization": f"Bearer {pages.site.server.token}"}) as reply:
            assert (reply.status, (await reply.json())["message"]) == (404, f"there is no pod default/{unquote(name)}")


async def test_a_pod_that_is_asked_about_is_no_larger_than_takes_milliseconds_to_read(pages: Pages) -> None:
    """T-02."""
    manifest = pod_manifest("x", memory_mib=3000) | {"more": "x" * 70_000}
    status, seen = await pages.post("/fits", manifest)
    assert (status, seen["reason"]) == (413, "RequestEntityTooLarge")


async def fit(pages: Pages, **spec: object) -> Any:
    manifest = pod_manifest("x", memory_mib=3000)
    manifest["spec"] |= spec
    _, seen = await pages.post("/fits?namespace=default", manifest)
    return seen


async def tell_amounts(pages: Pages, **amounts: str) -> None:
    """Let the node say what it can give beside cards, as a kubelet does."""
    has = {"nvidia.com/gpu": "10", **amounts}
    await pages.site.client.patch(NODES, "n1", {"status": {"allocatable": has, "capacity": has}}, subresource="status")
    await poll(lambda: set(amounts) <= set(pages.site.process.state.shown.nodes["n1"].status.allocatable or {}))


async def test_how_many_pods_without_cards_a_node_takes_is_not_known_where_it_does_not_tell(pages: Pages) -> None:
    manifest = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}
    _, untold = await pages.post("/fits?namespace=default", manifest)
    assert (untold.get("pods", 0), untold["isLeast"]) == (0, True)
    await tell_amounts(pages, cpu="4", memory="8Gi", pods="110")
    _, told = await pages.post("/fits?namespace=default", manifest)
    assert (told["pods"], told.get("isLeast", False)) == (4, False)


AFFINITY = "node(s) didn't match Pod's node affinity/selector"


async def test_a_selector_that_matches_nothing_leaves_no_room_although_cards_are_free(pages: Pages) -> None:
    seen = await fit(pages, nodeSelector={"disk": "ssd"})
    host = seen["explanation"]["host"]
    assert seen.get("pods", 0) == 0
    assert (host["withCards"], host.get("taking", 0)) == (1, 0)
    assert host["reasons"] == [{"text": AFFINITY, "nodes": 1}]
    assert seen["explanation"]["outcome"] == "does not fit"


async def test_room_is_what_cards_and_node_allow(pages: Pages) -> None:
    await tell_amounts(pages, cpu="4", memory="8Gi", pods="110")
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "cpu": "2"}
    container = {"name": "c", "resources": {"limits": limits}}
    assert (await fit(pages, containers=[container]))["pods"] == 2
    limits["cpu"] = "500"
    seen = await fit(pages, containers=[container])
    assert (seen.get("pods", 0), seen["explanation"]["host"]["reasons"]) == (
        0,
        [{"text": "Insufficient cpu", "nodes": 1}],
    )


async def test_what_pods_without_cards_request_is_not_free(pages: Pages) -> None:
    await tell_amounts(pages, cpu="4", memory="8Gi", pods="110")
    other = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    bound = {"metadata": {"name": "other"}, "spec": {"containers": [other], "nodeName": "n1"}}
    pod = await pages.site.client.create(PODS, bound, namespace="default")
    await poll(lambda: pod.metadata.uid in set(pages.site.process.state.shown.hosts.uids()))
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}}}
    assert (await fit(pages, containers=[container]))["explanation"]["host"]["reasons"][0]["text"] == "Insufficient cpu"


async def test_what_is_not_looked_at_is_named(pages: Pages) -> None:
    seen = await fit(pages, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    assert seen["explanation"]["host"]["unjudged"] == ["volumes", "the resources of 1 node without allocatable pods"]


async def test_fits_warns_of_what_the_webhook_would_warn_of(pages: Pages) -> None:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumemory": "1000"}}}
    (warning,) = (await fit(pages, containers=[container]))["warnings"]
    assert warning.endswith("did you mean nvidia.com/gpumem?")


async def test_a_pod_with_a_mistyped_resource_alone_has_no_room(pages: Pages) -> None:
    await tell_amounts(pages, cpu="4", memory="8Gi", pods="110")
    seen = await fit(pages, containers=[{"name": "c", "resources": {"limits": {"nvidia.com/gpumemory": "1000"}}}])
    assert (seen.get("pods", 0), len(seen["warnings"])) == (0, 1)
    assert seen["explanation"]["headline"].endswith("0 of 1 node take the pod: 1 Insufficient nvidia.com/gpumemory")


async def test_a_pod_that_waits_for_a_node_is_not_told_to_wait_for_kube_scheduler(pages: Pages) -> None:
    await pages.site.submit("picky", spec={"nodeSelector": {"disk": "ssd"}})
    said = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    changed = await pages.site.change_pod("picky", {"status": {"conditions": [condition]}}, subresource="status")
    await poll(lambda: bool(read_last_words(pages.site.process.state.shown.pods[changed.metadata.uid])))
    (row,) = (await pages.see("/pending"))["items"]
    assert not row.get("fits", False)
    told = f"the cards of 1 node would do, but it does not take the pod: 1 {AFFINITY}"
    assert row["headline"] == f"does not fit on the only node: {told}"
    assert row["host"]["lastWords"] == f"Unschedulable: {said}"
    seen = await pages.see("/explain/default/picky")
    assert seen["headline"] == "does not fit on the only node"
    assert seen["why"].startswith(f"pod default/picky does not fit on the only node. T{told[1:]}; it would fit on n1 ")
    (group,) = seen["groups"]
    assert (group["barred"], group.get("reasons")) == ([{"text": f"kube-scheduler: {AFFINITY}", "nodes": 1}], None)
    table = await pages.read("/pending")
    assert (table.count(escape(AFFINITY)), table.count("kube-scheduler said last")) == (1, 0)
    assert seen["host"]["lastWords"] == f"Unschedulable: {said}"
    page = await pages.read("/pods/default/picky")
    assert "kube-scheduler said last: Unschedulable: 0/1 nodes are available" in page


NOBODY = "cards apart, no node takes the pod either"


async def test_where_neither_cards_nor_node_would_do_both_are_told_everywhere(pages: Pages) -> None:
    await tell_amounts(pages, cpu="4", memory="8Gi", pods="110")
    manifest = pod_manifest("greedy", memory_mib=20_000)
    manifest["spec"] |= {"nodeSelector": {"disk": "ssd"}, "schedulerName": "hami-scheduler"}
    manifest["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "500"
    pod = await pages.site.client.create(PODS, manifest, namespace="default")
    await poll(lambda: pod.metadata.uid in pages.site.process.state.shown.pods)
    _, fits = await pages.post("/fits?namespace=default", manifest)
    host = f"{NOBODY}: 1 {AFFINITY}; apart from that, 1 Insufficient cpu"
    why = f"It asks for 20,000 MiB of one card; the largest card that it accepts has 10,000; {host}."
    seen = await pages.see("/explain/default/greedy")
    assert [one["why"].partition(". ")[2] for one in (seen, fits["explanation"])] == [why, why]
    assert [one["reason"] for one in seen["reasons"]] == ["CardInsufficientMemory"]
    (row,) = (await pages.see("/pending"))["items"]
    large = "it asks for 20,000 MiB of one card; the largest card that it accepts has 10,000"
    assert row["headline"] == f"does not fit on the only node; {large}: 1 CardInsufficientMemory; {host}"
    assert escape(host) in await pages.read("/pending")
    assert escape(host) in await pages.read("/pods/default/greedy")


async def test_where_cards_alone_say_no_the_rest_of_the_node_is_not_told(pages: Pages) -> None:
    await pages.site.submit("huge", memory_mib=20_000)
    seen = await pages.see("/explain/default/huge")
    assert (seen["host"].get("reasons"), NOBODY in seen["why"]) == (None, False)


async def test_what_kube_scheduler_said_last_is_quoted_where_cards_would_not_do_either(pages: Pages) -> None:
    await pages.site.submit("greedy", memory_mib=20_000, spec={"nodeSelector": {"disk": "ssd"}})
    said = f"0/1 nodes are available: 1 {AFFINITY}."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    changed = await pages.site.change_pod("greedy", {"status": {"conditions": [condition]}}, subresource="status")
    await pages.site.wait_for_pod(changed)
    assert f"kube-scheduler said last: Unschedulable: {escape(said)}" in await pages.read("/pods/default/greedy")


async def test_what_a_node_refuses_behind_the_first_reason_is_told_too(pages: Pages) -> None:
    await tell_amounts(pages, cpu="4", memory="8Gi", pods="110")
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "cpu": "500"}
    containers = [{"name": "c", "resources": {"limits": limits}}]
    seen = (await fit(pages, containers=containers, nodeSelector={"disk": "ssd"}))["explanation"]
    assert seen["host"]["further"] == [{"text": "Insufficient cpu", "nodes": 1}]
    assert f"but it does not take the pod: 1 {AFFINITY}; apart from that, 1 Insufficient cpu." in seen["why"]


async def test_nodes_with_as_much_free_are_counted_where_less_would_fit(pages: Pages) -> None:
    await pages.site.register("n2")
    has = {"nvidia.com/gpu": "10", "cpu": "4", "memory": "8Gi", "pods": "110"}
    for node in ("n1", "n2"):
        await pages.site.client.patch(NODES, node, {"status": {"allocatable": has}}, subresource="status")
    await poll(
        lambda: all("cpu" in (one.status.allocatable or {}) for one in pages.site.process.state.shown.nodes.values())
    )
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "cpu": "500"}
    seen = await fit(pages, containers=[{"name": "c", "resources": {"limits": limits}}])
    (remedy,) = seen["explanation"]["remedies"]
    assert (remedy["text"], remedy["nodeCount"]) == ("would fit on n1 or 1 other with 4 CPUs at most", 2)


async def test_a_mistyped_resource_is_the_reason_before_and_after_the_pod_is_created(pages: Pages) -> None:
    await tell_amounts(pages, cpu="4", memory="8Gi", pods="110")
    manifest = pod_manifest("typo", memory_mib=3000)
    manifest["spec"]["schedulerName"] = "hami-scheduler"
    limits = manifest["spec"]["containers"][0]["resources"]["limits"]
    limits["nvidia.com/gpumemory"] = limits.pop("nvidia.com/gpumem")
    pod = await pages.site.client.create(PODS, manifest, namespace="default")
    await poll(lambda: pod.metadata.uid in pages.site.process.state.shown.pods)
    seen = await pages.see("/explain/default/typo")
    assert seen["why"].endswith("did you mean nvidia.com/gpumem?")
    _, fits = await pages.post("/fits?namespace=default", manifest)
    assert fits["explanation"]["why"] == seen["why"]


async def test_a_selector_is_told_beside_a_mistyped_resource(pages: Pages) -> None:
    await tell_amounts(pages, cpu="4", memory="8Gi", pods="110")
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumemory": "1000"}
    seen = await fit(pages, containers=[{"name": "c", "resources": {"limits": limits}}], nodeSelector={"disk": "ssd"})
    why = seen["explanation"]["why"]
    assert (AFFINITY in why, why.endswith("did you mean nvidia.com/gpumem?")) == (True, True)


async def test_a_pod_waits_since_it_was_created_whoever_keeps_it_waiting(pages: Pages) -> None:
    pod = await pages.site.submit("unseen", memory_mib=20000)
    await pages.site.clock.advance(90)
    (row,) = (await pages.see("/pending"))["items"]
    assert (row["cause"], row["waitingS"] >= 90) == ("unseen", True)
    await pages.site.choose(pod)
    (row,) = (await pages.see("/pending"))["items"]
    assert (row["cause"], row["waitingS"] >= 90) == ("cards", True)


async def test_a_table_without_pods_names_the_namespace_that_was_chosen(pages: Pages) -> None:
    assert "No pod waits for a card." in await pages.read("/pending")
    assert "No pod waits for a card in namespace nosuch; " in await pages.read("/pending?namespace=nosuch")


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        (
            {"zone": "mars"},
            "n1 or 1 other if labelled zone=mars (kubectl label node n1 zone=mars), or without the pod's nodeSelector",
        ),
        ({"kubernetes.io/hostname": "node-z"}, "n1 or 1 other without the pod's nodeSelector"),
        ({"topology.kubernetes.io/zone": "a", "disk": "ssd"}, "n1 or 1 other without the pod's nodeSelector"),
    ],
)
async def test_nobody_is_told_to_give_a_node_the_label_of_another(pages: Pages, selector: Any, told: str) -> None:
    await pages.site.register("n2")
    await pages.site.submit("picky", spec={"nodeSelector": selector})
    (remedy,) = (await pages.see("/explain/default/picky"))["remedies"]
    assert (remedy["text"], remedy["nodeCount"]) == (f"would fit on {told}", 2)
    cell = f'data-label="Reasons">{escape(f"kube-scheduler: {AFFINITY}")} 2</td>'
    assert cell in await pages.read("/pods/default/picky")


@pytest.mark.parametrize(
    ("selector", "ask"),
    [
        ({"disk": "nmve"}, " (did you mean disk=nvme?)"),
        ({"dsk": "nvme"}, " (did you mean disk=nvme?)"),
        ({"a": "c"}, ""),
    ],
)
async def test_a_label_that_a_node_has_is_told_where_the_selector_has_nearly_that(
    pages: Pages, selector: dict[str, str], ask: str
) -> None:
    await pages.site.register("n2", labels={"disk": "nvme", "a": "b"})
    await pages.site.submit("picky", spec={"nodeSelector": selector})
    (remedy,) = (await pages.see("/explain/default/picky"))["remedies"]
    (label,) = (f"{key}={value}" for key, value in selector.items())
    told = ask or f" (kubectl label node n1 {label})"
    assert f"if labelled {label}{told}, or without" in remedy["text"]


async def test_who_asks_for_no_cores_is_not_said_to_have_none(pages: Pages) -> None:
    await pages.site.submit("waits", memory_mib=20000)
    await pages.site.choose(await pages.site.submit("runs"))
    told = "1 card, 20,000 MiB and no limit of cores"
    for path in ("/pending", "/pods/default/waits"):
        assert told in await pages.read(path)
    for path in ("/pods", "/pods/default/runs", "/cards/GPU-n1-0"):
        page = await pages.read(path)
        assert (">no limit</td>" in page, ">0 %</td>" in page) == (True, False)


async def test_a_pod_that_kube_scheduler_refuses_before_it_asks_says_so_everywhere(pages: Pages) -> None:
    pod = await pages.site.submit("tainted")
    assert "kube-scheduler has not asked about it yet" in await pages.read("/pending")
    said = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    changed = await pages.site.change_pod("tainted", {"status": {"conditions": [condition]}}, subresource="status")
    await pages.site.wait_for_pod(changed)
    (row,) = (await pages.see("/pending"))["items"]
    assert (row["waitingS"] >= 0, row["cause"]) == (True, "node")
    assert row["headline"].endswith(f"; {REFUSED_BEFORE}: Unschedulable: {said}")
    page = await pages.read("/pending")
    assert (page.count(REFUSED_BEFORE), page.count("0/1 nodes"), "has not asked" in page) == (1, 1, False)
    assert REFUSED_BEFORE in (await pages.see("/explain/default/tainted"))["notes"]
    assert await pages.site.choose(pod, "n1") == "n1"


@pytest.mark.parametrize(
    ("spec", "cause", "hold"),
    [
        ({"schedulingGates": [{"name": "demo/hold"}]}, "gate", "is not scheduled before its scheduling gate demo/hold"),
        ({"schedulerName": "foo"}, "scheduler", "is left to the scheduler that it names, foo;"),
    ],
    ids=["gate", "scheduler"],
)
async def test_a_pod_that_nobody_tries_to_place_says_so_everywhere(
    pages: Pages, spec: Any, cause: str, hold: str
) -> None:
    await pages.site.submit("held", spec=spec)
    (row,) = (await pages.see("/pending"))["items"]
    assert (row["cause"], row.get("fits", False), "has to try it again" in row["headline"]) == (cause, False, False)
    seen = await pages.see("/explain/default/held")
    assert seen["outcome"] == "held back"
    for told in (row["headline"], seen["headline"]):
        assert told.startswith(hold)
        assert "; apart from that it fits on " in told
    for path in ("/pending", "/pods/default/held"):
        assert hold in await pages.read(path)


async def test_a_decision_about_a_pod_that_may_not_be_seen_is_one_that_there_is_not(pages: Pages) -> None:
    await pages.site.choose(await pages.site.submit())
    await pages.site.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    somebody = pages.site.server.accounts.add("somebody", only_pods_of("other"))
    number = (await pages.see("/decisions"))["items"][0]["number"]
    (status, told), (absent, told_of_absent) = [
        await pages.get(f"/decisions/{one}", who=somebody) for one in (number, number + 1)
    ]
    assert (status, absent) == (404, 404)
    assert told["message"].replace(str(number), str(number + 1)) == told_of_absent["message"]


async def test_pods_that_the_scheduler_does_not_keep_are_read_by_a_client_of_their_own(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages.site.process.parts.client, "get", None)
    assert (await pages.get("/explain/default/absent"))[0] == 404


async def test_reading_pods_of_one_namespace_leaves_others_room(pages: Pages) -> None:
    await pages.site.client.create(NAMESPACES, {"metadata": {"name": "other"}})
    pages.site.server.faults.add(InjectedFault("GET", "/namespaces/default/pods/absent", delay_s=1, times=100))
    async with asyncio.TaskGroup() as tasks:
        people = [pages.site.server.accounts.add(f"p{at}", only_pods_of("default")) for at in range(17)]
        asking = [
            tasks.create_task(pages.get(f"/explain/default/absent-{at}", who=who)) for at, who in enumerate(people)
        ]
        done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        told = "too many pods are read at once: try again in a moment"
        assert [(task.result()[0], task.result()[1]["message"]) for task in done] == [(503, told)]
        assert (await pages.get("/explain/other/absent"))[0] == 404
        for task in waiting:
            task.cancel()


async def test_a_bound_pod_is_read_again_only_when_it_has_changed(pages: Pages) -> None:
    await run_pod(pages.site, "held", "n1")
    await pages.site.wait_for_pod(await pages.site.pod("held"))
    reads = pages.site.fail("GET", "/pods/held", times=100)
    for _ in range(3):
        assert (await pages.see("/explain/default/held"))["outcome"] == "bound"
    assert reads.times == 99
    changed = await pages.site.change_pod("held", {"metadata": {"labels": {"a": "b"}}})
    await pages.site.wait_for_pod(changed)
    before = reads.times
    await pages.see("/explain/default/held")
    assert reads.times == before - 1
