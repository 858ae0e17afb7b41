"""Which pods would have to move, asked on the command line of a small cluster."""

import pytest
from local.asking.conftest import Stage, settle

from gpuloom.cli.asking.namespaces import NAMESPACES
from gpuloom.kube.resources import DISRUPTION_BUDGETS, PODS, RESOURCE_QUOTAS
from gpuloom.local.apiserver import InjectedFault
from gpuloom.local.manifests import pod_manifest

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_pod_that_fits_needs_no_moves(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--for", "l4=4")
    assert (said.code, said.out) == (0, "4 whole cards l4: fits on node node-b without any move\n")


async def test_the_quota_of_the_namespace_that_is_given_limits_the_pod(stage: Stage) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "1000"}}}
    await stage.cluster.client.create(NAMESPACES, {"metadata": {"name": "small"}})
    await stage.cluster.client.create(RESOURCE_QUOTAS, quota, namespace="small")
    said = await stage.gpuloom("defrag", "--for", "l4=4", "--namespace", "small")
    await stage.cluster.client.delete(RESOURCE_QUOTAS, "q", namespace="small")
    assert (said.code, said.out.startswith("4 whole cards l4: fits on")) == (1, False), said.out


async def test_pods_that_nothing_makes_anew_stay_unless_forced(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--for", "t4=2")
    assert (said.code, said.out) == (
        1,
        "2 whole cards t4: found no moves that make room: see gpuloom fits and gpuloom explain\n",
    )


async def test_the_plan_names_pods_and_where_they_fit(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--force", "-o", "json")
    plan = said.json()
    (move,) = plan["moves"]
    assert (said.code, plan["found"], plan["node"], plan["is_fewest"]) == (0, True, "node-a", True)
    assert (move["namespace"], move["name"], move["node"], move["target"]) == ("default", "runs", "node-a", "node-b")
    assert (move["memory_mib"], len(move["cards"]), move["owner"]) == (6000, 1, "")
    assert plan["empty_cards_after"] == plan["empty_cards_before"]


async def test_people_read_what_each_move_costs(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--force")
    first, move, last = said.out.splitlines()
    assert first == "2 whole cards t4: 1 move would make room on node node-a"
    assert move.startswith("  default/runs: to node node-b (6,000 MiB on 1 card, priority 0, runs for ")
    assert move.endswith("nothing makes it anew)")
    assert last == "empty cards: 5 now, at most 4 on one node; then 5, at most 3"


async def test_without_a_pod_it_says_so_where_no_move_strands_less(stage: Stage) -> None:
    said = await stage.gpuloom("defrag", "--force")
    assert (said.code, said.err) == (1, "")
    assert said.out.startswith("no move strands less: ")
    assert said.out.count("\n") == 1


async def test_a_budget_that_lets_none_go_is_named(stage: Stage) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"selector": {}, "minAvailable": "100%"},
    }
    await stage.cluster.client.create(DISRUPTION_BUDGETS, budget, namespace="default")
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--force")
    await stage.cluster.client.delete(DISRUPTION_BUDGETS, "all", namespace="default")
    assert (said.code, said.err) == (0, "")
    assert "budget default/all lets none go now)" in said.out


async def test_who_may_not_read_budgets_is_told_the_plan_without_them(stage: Stage) -> None:
    stage.cluster.server.faults.add(InjectedFault(method="GET", path="/poddisruptionbudgets", status=403))
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--force")
    assert said.err.startswith("gpuloom: whether budgets forbid the moves cannot be told: list PodDisruptionBudget")
    assert (said.code, said.out.splitlines()[0]) == (0, "2 whole cards t4: 1 move would make room on node node-a")


async def test_a_pod_moves_only_where_its_selector_allows(stage: Stage) -> None:
    bound = pod_manifest("tied", memory_mib=2000, cores=10)
    bound["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-a"}
    bound["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "tied", "uid": "u-tied", "controller": True}
    ]
    await stage.cluster.submit(bound)
    await settle(stage.cluster, "runs", "tied")
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--force")
    await stage.cluster.client.delete(PODS, "tied", namespace="default", grace_period_s=0)
    assert said.code == 1


async def test_a_pod_moves_only_where_others_leave_it_its_share_of_the_host(stage: Stage) -> None:
    """A node has 64 cores."""
    greedy = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "63500m"}}}
    spec = {"nodeName": "node-b", "containers": [greedy]}
    await stage.cluster.client.create(PODS, {"metadata": {"name": "greedy"}, "spec": spec}, namespace="default")
    busy = pod_manifest("busy", memory_mib=2000, cores=10, owner="busy")
    busy["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    await stage.cluster.submit(busy)
    await settle(stage.cluster, "runs", "greedy", "busy")
    said = await stage.gpuloom("defrag", "--for", "t4=2", "--force")
    node = (await stage.cluster.client.get(PODS, "busy", namespace="default")).spec.node_name
    for name in ("greedy", "busy"):
        await stage.cluster.client.delete(PODS, name, namespace="default", grace_period_s=0)
    assert (said.code, node) == (1, "node-a")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("nonsense", "--for nonsense: give the file of a manifest, or MODEL=COUNT such as a100=4"),
        ("h200=2", "no node has cards of a model h200; there are: "),
        ("t4=3", "--for t4=3: no node has more than 2 such cards, ask for 1 to 2"),
        ("t4=0", "--for t4=0: no node has more than 2 such cards, ask for 1 to 2"),
    ],
)
async def test_what_cannot_be_meant_is_one_line(stage: Stage, asked: str, told: str) -> None:
    said = await stage.gpuloom("defrag", "--for", asked)
    assert said.code in {1, 2}
    assert said.out == ""
    assert said.err.startswith(f"gpuloom: {told}")
    assert said.err.count("\n") == 1


async def test_a_pod_without_cards_is_told_so(stage: Stage) -> None:
    manifest = '{"kind": "Pod", "metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c"}]}}'
    said = await stage.gpuloom("defrag", "--for", "-", stdin=manifest)
    assert (said.code, said.err) == (
        1,
        "gpuloom: Pod/plain asks for no card: moves of pods on cards make no room for it\n",
    )
