"""Tables of the pages, read without a browser: what is sorted, filtered and searched, and what there is not."""

import re

import pytest
from local.web.pages import Pages
from local.web.scenes import run_pod
from local.web.test_api import only_pods_of

from gpuloom.kube import PODS as POD_OBJECTS
from gpuloom.local.manifests import pod_manifest
from gpuloom.web.dashboard import asked

PODS = ["default/notebook-1", "default/notebook-2", "default/notebook-3", "default/train-large"]
NODES = ["n1", "node-a", "node-b", "node-c", "node-d"]


def rows_of(html: str) -> list[str]:
    """Return what the rows of the page's table are about."""
    return re.findall(r'<th scope="row"><a href="[^"]*">([^<]*)</a></th>', html.partition("<tbody>")[2])


async def test_the_pods_page_lists_pods_with_cards_by_name(scene: Pages) -> None:
    html = await scene.read("/pods")
    assert rows_of(html) == PODS
    assert "<caption>4 pods with cards" in html
    assert 'title="245,760 MiB">240 GiB<' in html


@pytest.mark.parametrize(
    ("query", "pods"),
    [
        ("q=train", ["default/train-large"]),
        ("namespace=default", PODS),
        ("namespace=elsewhere", []),
        ("node=node-c", ["default/train-large"]),
        ("standing=bound", PODS),
        ("standing=reserved", []),
        ("sort=-memory", [PODS[3], *reversed(PODS[:3])]),
        ("sort=-name", PODS[::-1]),
        ("sort=nonsense", PODS),
        ("q=<b>", []),
    ],
)
async def test_pods_are_searched_filtered_and_sorted(scene: Pages, query: str, pods: list[str]) -> None:
    assert rows_of(await scene.read(f"/pods?{query}")) == pods


async def test_pods_are_sorted_by_the_memory_that_is_shown(pages: Pages) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000"}
    init = [{"name": "prepare", "image": "i", "resources": {"limits": limits}}]
    await run_pod(pages.site, "twice", "n1", memory_mib=4000, spec={"initContainers": init})
    await run_pod(pages.site, "once", "n1", memory_mib=5000)
    assert [row["memoryMib"] for row in (await pages.see("/pods"))["items"]] == [5000, 4000]
    assert rows_of(await pages.read("/pods?sort=-memory")) == ["default/once", "default/twice"]


async def test_a_search_that_finds_no_node_says_so(scene: Pages) -> None:
    assert "<p>No node is like this.</p>" in await scene.read("/nodes?q=elsewhere")


async def test_what_was_searched_for_is_escaped(scene: Pages) -> None:
    html = await scene.read("/pods?q=%22%3E%3Cscript%3E")
    assert "<script>" not in html
    assert 'value="&#34;&gt;&lt;script&gt;"' in html


async def test_pods_of_other_namespaces_are_not_on_the_pods_page(scene: Pages) -> None:
    somebody = scene.site.server.accounts.add("somebody", only_pods_of("other"))
    html = await scene.read("/pods", who=somebody)
    assert rows_of(html) == []
    assert "notebook" not in html
    assert "You see the pods of other." in await scene.read("/pods?namespace=other", who=somebody)
    assert "list pods in namespace default" in await scene.read("/pods?namespace=default", who=somebody, expect=403)


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        ("", NODES),
        ("sort=-name", NODES[::-1]),
        ("sort=-cards", ["node-c", "node-a", "node-b", "n1", "node-d"]),
        ("sort=-memory", ["node-c", "node-a", "n1", "node-b", "node-d"]),
        ("sort=-pods", ["node-a", "node-c", "n1", "node-b", "node-d"]),
        ("model=NVIDIA+L4", ["node-a", "node-b"]),
        ("model=none", []),
        ("show=trouble", ["node-b", "node-c", "node-d"]),
        ("show=full", []),
        ("show=free&model=NVIDIA+L4&q=b", ["node-b"]),
    ],
)
async def test_nodes_are_filtered_and_sorted(scene: Pages, query: str, nodes: list[str]) -> None:
    assert rows_of(await scene.read(f"/nodes?{query}")) == nodes


async def test_quotas_are_told_in_units_that_people_read(scene: Pages) -> None:
    html = await scene.read("/quotas")
    assert '<span title="263,760 MiB">257.6 GiB</span>' in html
    assert '<span title="400,000 MiB">390.6 GiB</span>' in html


async def test_the_map_shows_the_nodes_of_a_model(scene: Pages) -> None:
    html = await scene.read("/?model=NVIDIA+L4")
    assert re.findall(r'<li id="n-([^"]*)">', html) == ["node-a", "node-b"]
    assert "<option selected>NVIDIA L4</option>" in html


async def test_the_heading_of_the_sorted_column_says_so(scene: Pages) -> None:
    html = await scene.read("/nodes?sort=-memory")
    assert re.findall(r'aria-sort="([^"]*)"', html) == ["none", "none", "descending", "none", "none", "none"]


async def test_a_card_that_a_waiting_pod_would_get_is_not_called_chosen(scene: Pages) -> None:
    await scene.site.submit("small", memory_mib=1000)
    assert "★ would be chosen" in await scene.read("/pods/default/small")
    held = await scene.read("/pods/default/notebook-1")
    assert held.count("★ held") == 1
    assert "would be chosen" not in held


@pytest.mark.parametrize("path", ["/nowhere", "/nodes/a/b", "/static/0/dashboard.css2/x"])
async def test_a_page_that_there_is_not_is_told_in_a_page(pages: Pages, path: str) -> None:
    html = await pages.read(path, expect=404)
    assert "<h1>Not found</h1>" in html
    assert f"there is no page {path}" in html


async def test_a_path_of_the_api_that_there_is_not_is_told_in_a_status(pages: Pages) -> None:
    code, status = await pages.get("/nothing")
    assert (code, status["kind"], status["reason"]) == (404, "Status", "NotFound")
    assert status["message"] == "there is nothing to GET at /api/v1/nothing"


@pytest.mark.parametrize("path", ["/nodes", "/pods", "/pending", "/quotas", "/decisions"])
async def test_beyond_the_end_of_a_table_is_its_last_page(
    scene: Pages, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(asked, "ROWS", 1)
    html = await scene.read(f"{path}?page=99")
    assert html.count('<tr id="') == 1
    assert 'rel="prev">← Before</a>' in html
    assert 'rel="next"' not in html


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/decisions", "Nothing was decided yet about pods of namespace nosuch; "),
        ("/quotas", "Namespace nosuch holds no cards and has no quota for them; "),
    ],
)
async def test_a_table_without_rows_names_the_namespace_that_was_chosen(scene: Pages, path: str, told: str) -> None:
    assert f'{told}<a href="{path}">all namespaces</a>.' in await scene.read(f"{path}?namespace=nosuch")


async def test_whoever_sees_no_decision_is_not_told_that_there_was_none(scene: Pages) -> None:
    somebody = scene.site.server.accounts.add("somebody", only_pods_of("other"))
    assert "Nothing was decided yet about pods that you may see." in await scene.read("/decisions", who=somebody)


async def test_a_node_is_not_said_to_be_missing_where_no_node_is_told_of(pages: Pages) -> None:
    await pages.site.client.create(POD_OBJECTS, pod_manifest("plain", cards=0), namespace="default")
    await pages.site.submit("p")
    assert "No node to tell of." in await pages.read("/pods/default/plain?node=n1")
    assert "No node to tell of: there is none named n2." in await pages.read("/pods/default/p?node=n2")


@pytest.mark.parametrize(
    ("path", "region"),
    [("/nodes/node-a", "nominations"), ("/pods/default/giant", "nominations"), ("/pods/default/giant", "use")],
)
async def test_a_region_that_is_empty_is_no_landmark(scene: Pages, path: str, region: str) -> None:
    assert f'<section id="{region}">\n</section>' in await scene.read(path)
