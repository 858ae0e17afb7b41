import asyncio
import re

import pytest
from local.asking.conftest import DEADLINE_S, POD, Said, Stage

from gpuloom.kube import PODS
from gpuloom.local.manifests import pod_manifest

pytestmark = pytest.mark.asyncio(loop_scope="module")


def rows(said: Said) -> list[list[str]]:
    assert (said.code, said.err) == (0, ""), said
    return [line.split() for line in said.out.splitlines()]


async def test_top_sums_up_by_model(stage: Stage) -> None:
    said = await stage.gpuloom("top")
    assert said.code == 0
    assert said.out.startswith("6 cards on 2 of 2 nodes: 5 idle\npods: 1 with cards, 0 being bound, 1 waiting\n")


USED = r"  [2-5],\d{3} "
"""What the one pod uses of its 6,000 MiB, in a column: heard some seconds after it runs."""


async def ask_until(stage: Stage, *tokens: str, shows: str) -> Said:
    """Ask again and again until the answer matches a pattern."""
    async with asyncio.timeout(DEADLINE_S):
        while not re.search(shows, (said := await stage.gpuloom(*tokens)).out):
            pass
    return said


@pytest.mark.parametrize("what", ["nodes", "cards"])
async def test_top_tells_what_is_used_as_the_pages_do(stage: Stage, what: str) -> None:
    assert (await ask_until(stage, "top", what, shows=USED)).err == ""
    used = (await stage.gpuloom("top", what, "--sort-by", ".memory.used", "-o", "json")).json()["items"]
    assert (used[0]["use"], 0 < used[-1]["use"]["memoryMib"] < 6000) == ({"memoryMib": 0, "busy": 0}, True)


async def test_top_says_that_no_monitor_tells_what_is_used_where_the_pages_do_not_either(stage: Stage) -> None:
    said = await stage.gpuloom("top", "cards", "--service", "kube-system/none")
    assert "unknown" in said.out
    assert "what is really used is not known: no monitor found" in said.err


async def test_a_service_that_is_not_there_is_told_and_the_api_servers_objects_answer(stage: Stage) -> None:
    said = await stage.gpuloom("pods", "-o", "name", "--service", "kube-system/none")
    assert (said.code, said.out) == (0, "pod/runs\n")
    assert said.err == (
        "gpuloom: answered from the API server's objects, not by the scheduler: "
        'Service kube-system/none does not lead to the scheduler: services "none" not found\n'
    )


async def test_top_of_a_recording_says_that_it_does_not_tell(stage: Stage) -> None:
    snapshot = await stage.gpuloom("snapshot")
    said = await stage.gpuloom("top", "cards", "--from", "-", stdin=snapshot.out)
    assert "unknown" in said.out
    assert said.err.endswith("what is really used is not known: a recording does not tell\n")


async def test_nodes_and_their_cards_are_listed(stage: Stage) -> None:
    assert [row[:3] for row in rows(await stage.gpuloom("nodes"))] == [
        ["NAME", "CARDS", "PODS"],
        ["node-a", "2", "1"],
        ["node-b", "4", "0"],
    ]


async def test_one_node_shows_who_is_on_its_cards(stage: Stage) -> None:
    told = "  default/runs (main): 6,000 MiB, 25 % of the cores, bound, since"
    assert told in (await stage.gpuloom("nodes", "node-a")).out


@pytest.mark.parametrize(("flags", "count"), [((), 6), (("--state", "used"), 1), (("--node", "node-b"), 4)])
async def test_cards_can_be_chosen(stage: Stage, flags: tuple[str, ...], count: int) -> None:
    assert len(rows(await stage.gpuloom("cards", "--no-headers", *flags))) == count


async def test_cards_that_are_not_like_that_are_not_said_to_be_missing(stage: Stage) -> None:
    assert (await stage.gpuloom("cards", "--state", "unhealthy")).err.endswith("No card is like this.\n")


@pytest.mark.parametrize("command", [("cards",), ("explain", "waits"), ("fits", "-f", "-")], ids=lambda one: one[0])
async def test_a_node_that_there_is_not_is_refused_not_passed_over(stage: Stage, command: tuple[str, ...]) -> None:
    snapshot = (await stage.gpuloom("snapshot")).out
    for source in ((), ("--from", "/dev/stdin") if "-" not in command else ()):
        said = await stage.gpuloom(*command, "--node", "node-z", *source, stdin=snapshot if source else POD)
        assert (said.code, said.out) == (1, "")
        assert "there is no node node-z" in said.err


@pytest.mark.parametrize("flag", [("--node", "node-b"), ("--model", "L4"), ("--state", "idle")], ids=lambda one: one[0])
async def test_one_card_is_not_chosen_by_flags_for_lists(stage: Stage, flag: tuple[str, str]) -> None:
    said = await stage.gpuloom("cards", "GPU-1", *flag)
    assert (said.code, said.out) == (2, "")
    assert f"GPU-1 cannot be given with {flag[0]}: leave one of them out" in said.err


async def test_a_card_shows_who_is_on_it(stage: Stage) -> None:
    (card,) = (await stage.gpuloom("cards", "--state", "used", "-o", "json")).json()["items"]
    assert "default/runs" in (await stage.gpuloom("cards", card["uuid"])).out
    assert "default/runs" in (await stage.gpuloom("cards", card["uuid"][:-4])).out


async def test_a_card_is_named_as_lists_print_it(stage: Stage) -> None:
    (card,) = (await stage.gpuloom("cards", "--state", "used", "-o", "json")).json()["items"]
    uuid = card["uuid"]
    for name in (f"card/{uuid}", f"{card['node']}/{card['index']}", uuid.lower()[:-4], uuid.upper()):
        assert (await stage.gpuloom("cards", name)).out.startswith(f"card {uuid} ("), name
    assert (await stage.gpuloom("nodes", "node/node-a", "-o", "json")).json()["node"]["name"] == "node-a"


async def test_the_name_alone_is_printed_of_one_object_too(stage: Stage) -> None:
    (card,) = (await stage.gpuloom("cards", "--state", "used", "-o", "json")).json()["items"]
    uuid = card["uuid"]
    for tokens, name in ((("cards", uuid[:-4]), f"card/{uuid}"), (("nodes", "node-a"), "node/node-a")):
        said = await stage.gpuloom(*tokens, "-o", "name")
        assert (said.code, said.out) == (0, f"{name}\n")


async def test_a_card_of_a_node_that_there_is_not_is_told_so(stage: Stage) -> None:
    said = await stage.gpuloom("cards", "node-z/0")
    assert (said.code, said.err) == (1, "gpuloom: there is no node node-z: see gpuloom nodes\n")


async def test_a_card_shows_what_each_pod_uses_of_it(stage: Stage) -> None:
    (card,) = (await stage.gpuloom("cards", "--state", "used", "-o", "json")).json()["items"]
    said = await ask_until(stage, "cards", card["uuid"], shows=", uses [2-5]")
    assert re.search(r"default/runs \(main\): 6,000 MiB, .*, since \w+, uses [2-5],\d{3} MiB, load \d+ %\n", said.out)


@pytest.mark.parametrize("what", ["cards", "pods"])
async def test_wide_lists_show_what_is_used(stage: Stage, what: str) -> None:
    said = await ask_until(stage, what, "-o", "wide", shows=USED)
    assert "USED(MiB)   LOAD(%)" in said.out
    assert re.search(USED + r" +\d{1,2} ", said.out)


async def test_a_beginning_that_many_cards_have_is_wrong_usage(stage: Stage) -> None:
    said = await stage.gpuloom("cards", "GPU-")
    assert (said.code, said.out) == (2, "")
    assert "GPU- is the beginning of 6 cards" in said.err


async def test_pods_with_cards_are_listed(stage: Stage) -> None:
    assert rows(await stage.gpuloom("pods", "--no-headers"))[0][:4] == ["default", "runs", "bound", "node-a"]


async def test_waiting_pods_say_why(stage: Stage) -> None:
    (row,) = rows(await stage.gpuloom("pending", "--no-headers"))
    assert row[:2] == ["default", "waits"]
    large = "it asks for 60,000 MiB of one card; the largest card that it accepts has 23,034"
    assert f"fits on none of 2 nodes; {large}: 2 CardInsufficientMemory" in " ".join(row)


async def test_a_namespace_without_pods_is_said_to_have_none(stage: Stage) -> None:
    said = await stage.gpuloom("pending", "-n", "kube-public")
    assert (said.code, said.out, said.err) == (
        0,
        "",
        "No pod waits for a card in namespace kube-public; -A is all namespaces.\n",
    )


async def test_explain_tells_every_card_with_its_numbers(stage: Stage) -> None:
    said = await stage.gpuloom("explain", "waits", "-v")
    assert said.out.startswith("pod default/waits fits on none of 2 nodes.\n")
    assert said.out.count("CardInsufficientMemory (asks 60,000 MiB;") == 6


async def test_explain_says_it_in_two_sentences(stage: Stage) -> None:
    first, second = (await stage.gpuloom("explain", "waits")).out.splitlines()
    assert first == "pod default/waits fits on none of 2 nodes."
    large = "asks for 60,000 MiB of one card; the largest card that it accepts has 23,034"
    assert second == f"It {large}; it would fit on node-b with 23,034 MiB at most."


async def test_whoever_names_nodes_gets_details(stage: Stage) -> None:
    assert "  node-b: " in (await stage.gpuloom("explain", "waits", "--node", "node-b")).out


async def test_explain_is_the_same_from_the_scheduler_and_from_the_api_servers_objects(stage: Stage) -> None:
    served = await stage.gpuloom("explain", "waits", "-o", "json")
    snapshot = await stage.gpuloom("snapshot")
    recorded = await stage.gpuloom("explain", "waits", "-o", "json", "--from", "-", stdin=snapshot.out)
    by_server, by_recording = served.json(), recorded.json()
    assert "notLookedAt" not in by_server.pop("host")
    assert by_recording.pop("host")["notLookedAt"].startswith("a snapshot or recording tells of cards alone")
    assert by_server == by_recording
    assert recorded.err.startswith("gpuloom: - tells of 20")


async def test_the_server_can_be_named(stage: Stage) -> None:
    url = stage.cluster.pages_url
    assert (await stage.gpuloom("explain", "pod/waits", "--server", url)).code == 0
    assert (await stage.gpuloom("explain", "default/waits", GPULOOM_SERVER=url)).code == 0


@pytest.mark.parametrize(("output", "begin"), [("yaml", "pod:\n"), ("json", "{\n")])
async def test_explanations_can_be_read_by_programs(stage: Stage, output: str, begin: str) -> None:
    assert (await stage.gpuloom("explain", "waits", "-o", output)).out.startswith(begin)


async def test_lists_can_be_piped_by_name(stage: Stage) -> None:
    assert (await stage.gpuloom("pods", "-o", "name")).out == "pod/runs\n"


async def test_nothing_is_coloured_in_a_pipe(stage: Stage) -> None:
    assert "\x1b" not in (await stage.gpuloom("explain", "waits")).out


async def test_fits_tells_how_many(stage: Stage) -> None:
    said = await stage.gpuloom("fits", "-f", "-", stdin=POD)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Pod/new: room for 15 such pods: node-b 12, node-a 3\n")


async def test_fits_tells_what_a_node_lacks_beside_cards(stage: Stage) -> None:
    pod = POD.replace("spec:", "spec:\n  nodeSelector: {disk: ssd}")
    said = await stage.gpuloom("fits", "-v", "-f", "-", stdin=pod)
    affinity = "node(s) didn't match Pod's node affinity/selector"
    told = f"he cards of 2 nodes would do, but none of them takes the pod: 2 {affinity}"
    labelled = "if labelled disk=ssd (kubectl label node node-a disk=ssd)"
    remedy = f"it would fit on node-a or 1 other {labelled}, or without the pod's nodeSelector."
    assert said.code == 1
    head, why, *details = said.out.splitlines()[:9]
    assert (head, why) == ("Pod/new: no room", "pod default/new fits on none of 2 nodes.")
    assert details[0] == f"T{told}; {remedy}"
    assert f"  t{told}" in details


async def test_fits_tells_once_what_the_webhook_would_warn_of(stage: Stage) -> None:
    said = await stage.gpuloom("fits", "-f", "-", stdin=POD.replace("gpumem:", "gpumemory:"))
    assert said.out.count("no node has nvidia.com/gpumemory, and gpuloom knows no such resource") == 1
    said = await stage.gpuloom("fits", "-f", "-", stdin=POD.replace("gpumem: 6000", "gpumem: 60000"))
    assert said.out.startswith("Pod/new: warning: ")


async def test_a_snapshot_says_that_it_tells_of_cards_alone(stage: Stage) -> None:
    snapshot = await stage.gpuloom("snapshot")
    said = await stage.gpuloom("explain", "waits", "-v", "--from", "-", stdin=snapshot.out)
    assert "\n  not looked at: taints, node selector and affinity, CPU, memory," in said.out


async def test_a_snapshot_tells_that_a_gate_holds_a_pod_back(stage: Stage) -> None:
    gated = pod_manifest("gated", memory_mib=100)
    gated["spec"] |= {"schedulingGates": [{"name": "demo/hold"}]}
    await stage.cluster.submit(gated)
    snapshot = await stage.gpuloom("snapshot")
    await stage.cluster.client.delete(PODS, "gated", namespace="default", grace_period_s=0)
    for command in (("explain", "gated"), ("pending",)):
        said = await stage.gpuloom(*command, "--from", "-", stdin=snapshot.out)
        assert "is not scheduled before its scheduling gate demo/hold is removed; apart from that it fits" in said.out


async def test_fits_looks_into_what_makes_pods(stage: Stage) -> None:
    template = pod_manifest("x", memory_mib=20_000)
    manifest = {
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 9, "template": {"spec": template["spec"]}},
    }
    said = await stage.gpuloom("fits", "-f", "-", stdin=str(manifest))
    assert said.code == 1
    assert said.out.startswith("Deployment/web: room for 4 such pods of 9 asked for: node-b 4\n")


async def test_fits_creates_nothing(stage: Stage) -> None:
    await stage.gpuloom("fits", "-f", "-", stdin=POD)
    assert "new" not in (await stage.gpuloom("pods", "-A")).out


async def test_quota_tells_what_is_held(stage: Stage) -> None:
    assert rows(await stage.gpuloom("quota", "--no-headers"))[0] == [
        "default",
        "nvidia.com/gpumem",
        "6,000",
        "none",
        "<none>",
        "MiB",
    ]


async def test_it_is_a_plugin_of_kubectl(stage: Stage) -> None:
    said = await stage.gpuloom("explain", "--help")
    assert "Tell why a pod goes where it goes, or nowhere." in said.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_completion_is_printed(stage: Stage, shell: str) -> None:
    said = await stage.gpuloom("completion", shell)
    assert "drain-card" in said.out
