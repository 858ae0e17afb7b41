from datetime import UTC, datetime

import pytest
from local.asking.conftest import HAMI_DECIDES, Stage, scheduler_of, settle

from gpuloom.kube.resources import NODES, PODS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.local.manifests import pod_manifest
from gpuloom.wire.keys import NODE_REGISTER, NOMINATED
from gpuloom.wire.nomination import encode_nomination
from gpuloom.wire.register import decode_register

pytestmark = pytest.mark.asyncio(loop_scope="module")
CORDON = "hami.io/device-cordon"


async def used_card(stage: Stage):
    (card,) = (await stage.gpuloom("cards", "--state", "used", "-o", "json")).json()["items"]
    return card["uuid"]


async def idle_cards(stage: Stage) -> list[str]:
    return [card["uuid"] for card in (await stage.gpuloom("cards", "--state", "idle", "-o", "json")).json()["items"]]


async def registered(stage: Stage, node: str) -> list[str]:
    return [one.id for one in decode_register((await stage.cluster.client.get(NODES, node)).annotations[NODE_REGISTER])]


async def closed(stage: Stage, node: str) -> str | None:
    return (await stage.cluster.client.get(NODES, node)).annotations.get(CORDON)


async def test_a_closed_card_takes_no_pod_until_it_is_opened(stage: Stage) -> None:
    card = (await idle_cards(stage))[0]
    said = await stage.gpuloom("cordon", card[:12])
    assert (said.code, said.out) == (0, f"card {card} of node node-a cordoned\n")
    assert await closed(stage, "node-a") == card
    again = await stage.gpuloom("cordon", card)
    assert again.out == f"card {card} of node node-a already cordoned\n"
    assert (await stage.gpuloom("cards", "--state", "cordoned", "-o", "name")).out == f"card/{card}\n"
    await stage.gpuloom("uncordon", card)
    assert await closed(stage, "node-a") is None


@pytest.mark.parametrize(
    ("chart", "command", "said_of_it"),
    [
        pytest.param("hami", "cordon", HAMI_DECIDES, id="HAMi's"),
        pytest.param("gpuloom", "cordon", "", id="gpuloom's"),
        pytest.param("hami", "uncordon", "", id="HAMi's, opened"),
    ],
)
async def test_closing_a_card_says_that_hamis_scheduler_may_give_it_to_pods_where_it_decides(
    stage: Stage, chart: str, command: str, said_of_it: str
) -> None:
    card = (await idle_cards(stage))[0]
    async with scheduler_of(stage, chart):
        said = await stage.gpuloom(command, card)
    await stage.gpuloom("uncordon", card)
    assert (said.code, said.err) == (0, said_of_it)


async def test_a_card_is_closed_by_who_may_not_read_leases(stage: Stage) -> None:
    card = (await idle_cards(stage))[0]
    refused = InjectedFault(method="GET", path="/leases/", status=403, times=2)
    stage.cluster.server.faults.add(refused)
    async with scheduler_of(stage, "hami"):
        said = await stage.gpuloom("cordon", card)
    await stage.gpuloom("uncordon", card)
    assert (said.code, said.err) == (0, "")


async def test_a_card_to_close_is_named_as_lists_print_it_in_any_case(stage: Stage) -> None:
    card = (await idle_cards(stage))[0]
    said = await stage.gpuloom("cordon", f"card/{card.upper()[:20]}")
    assert (said.code, said.out) == (0, f"card {card} of node node-a cordoned\n")
    said = await stage.gpuloom("uncordon", f"card/{card}")
    assert (said.code, said.out) == (0, f"card {card} of node node-a uncordoned\n")


async def test_a_card_to_close_is_named_by_its_place(stage: Stage) -> None:
    listed = (await stage.gpuloom("cards", "-o", "json")).json()["items"]
    card = next(one["uuid"] for one in listed if (one["node"], one.get("index")) == ("node-b", 3))
    said = await stage.gpuloom("cordon", "node-b/3")
    assert (said.code, said.out) == (0, f"card {card} of node node-b cordoned\n")
    said = await stage.gpuloom("uncordon", "card/node-b/3")
    assert (said.code, said.out) == (0, f"card {card} of node node-b uncordoned\n")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("node-b/99", "node node-b has no card with index 99: see gpuloom cards"),
        ("node-x/0", "no node has a card node-x/0: see gpuloom cards"),
        ("node-b/", "no node has a card node-b/: see gpuloom cards"),
    ],
)
async def test_an_unknown_place_changes_nothing(stage: Stage, place: str, why: str) -> None:
    said = await stage.gpuloom("cordon", place)
    assert (said.code, said.out, said.err) == (1, "", f"gpuloom: {why}\n")


async def test_several_cards_on_one_node_are_kept_apart(stage: Stage) -> None:
    one, other = (await idle_cards(stage))[-2:]
    for card in (one, other):
        await stage.gpuloom("cordon", card)
    await stage.gpuloom("uncordon", one)
    assert await closed(stage, "node-b") == other
    await stage.gpuloom("uncordon", other)


async def test_an_unknown_card_changes_nothing(stage: Stage) -> None:
    said = await stage.gpuloom("cordon", "GPU-unknown")
    assert (said.code, said.err) == (1, "gpuloom: no node has a card GPU-unknown: see gpuloom cards\n")


async def test_a_beginning_of_many_cards_is_not_enough(stage: Stage) -> None:
    said = await stage.gpuloom("cordon", "GPU-")
    assert said.code == 2
    assert "is the beginning of 6 cards" in said.err


async def test_a_card_that_two_nodes_claim_is_not_touched(stage: Stage) -> None:
    client = stage.cluster.client
    register = (await client.get(NODES, "node-a")).annotations[NODE_REGISTER]
    card = decode_register(register)[0].id
    await client.create(NODES, {"metadata": {"name": "claims", "annotations": {NODE_REGISTER: register}}})
    said = await stage.gpuloom("cordon", card)
    await client.delete(NODES, "claims")
    assert said.code == 1
    assert f"several nodes have registered a card {card} (claims, node-a)" in said.err
    assert await closed(stage, "node-a") is None


async def test_draining_asks_first(stage: Stage) -> None:
    card = await used_card(stage)
    said = await stage.gpuloom("drain-card", card, "--force")
    assert said.code == 2
    assert said.err.endswith(f"gpuloom: 1 pod would be evicted from {card}: say so with --yes\n")
    assert said.out == "default/runs: room on node node-a\n"
    assert await closed(stage, "node-a") is None


async def test_pods_that_nothing_makes_anew_need_force(stage: Stage) -> None:
    card = await used_card(stage)
    said = await stage.gpuloom("drain-card", card, "--yes")
    assert (said.code, said.err) == (
        1,
        "gpuloom: nothing will make these pods anew: default/runs; evict them with --force\n",
    )
    assert await closed(stage, "node-a") is None


async def test_draining_evicts_who_is_on_the_card(stage: Stage) -> None:
    card = await used_card(stage)
    said = await stage.gpuloom("drain-card", card, "--yes", "--force")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == [
        "default/runs: room on node node-a",
        f"card {card} of node node-a cordoned",
        "pod default/runs evicted",
        f"card {card} of node node-a drained",
    ]
    await stage.gpuloom("uncordon", card)
    await stage.cluster.submit(pod_manifest("runs", memory_mib=6000, cores=25))
    await settle(stage.cluster, "runs")


async def test_a_dry_run_tells_where_pods_would_go_and_changes_nothing(stage: Stage) -> None:
    card = await used_card(stage)
    said = await stage.gpuloom("drain-card", card, "--dry-run")
    assert (said.code, said.out, said.err) == (0, "default/runs: room on node node-a\n", "")
    assert await closed(stage, "node-a") is None


async def test_a_dry_run_tells_in_json_who_finds_no_room(stage: Stage) -> None:
    card = await used_card(stage)
    others = await idle_cards(stage)
    for other in others:
        await stage.gpuloom("cordon", other)
    said = await stage.gpuloom("drain-card", card, "--dry-run", "-o", "json")
    for other in others:
        await stage.gpuloom("uncordon", other)
    assert said.code == 1
    plan = said.json()
    assert (plan["card"], plan["node"]) == (card, "node-a")
    why = "2 nodes CardCordoned(node-a,node-b)"
    assert plan["pods"] == [{"namespace": "default", "name": "runs", "fits": False, "node": "", "why": why}]


async def test_a_dry_run_finds_no_room_on_a_node_that_keeps_it_for_another(stage: Stage) -> None:
    card, client = await used_card(stage), stage.cluster.client
    others = [one for one in await idle_cards(stage) if one in await registered(stage, "node-a")]
    waiting = pod_manifest("waiting", memory_mib=6000)
    waiting["spec"]["schedulerName"] = "nobody"
    await client.create(PODS, waiting, namespace="default")
    # Only afterwards: the webhook takes it off new pods.
    told = {NOMINATED: encode_nomination("node-b", datetime.now(UTC))}
    await client.patch(PODS, "waiting", {"metadata": {"annotations": told}}, namespace="default")
    await stage.gpuloom("cordon", *others)
    said = await stage.gpuloom("drain-card", card, "--dry-run")
    await stage.gpuloom("uncordon", *others)
    await client.delete(PODS, "waiting", namespace="default")
    assert (said.code, said.out) == (1, "default/runs: no room: 1 nodes CardCordoned(node-a)\n")


async def test_an_empty_card_is_told_as_such(stage: Stage) -> None:
    card = (await idle_cards(stage))[0]
    said = await stage.gpuloom("drain-card", card, "--dry-run")
    assert (said.code, said.out) == (0, f"no pod is on card {card} of node node-a\n")


async def test_a_form_for_programs_is_for_dry_runs_alone(stage: Stage) -> None:
    said = await stage.gpuloom("drain-card", await used_card(stage), "-o", "json", "--yes")
    assert (said.code, "--dry-run" in said.err) == (2, True)
