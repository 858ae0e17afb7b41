"""Cards whose cores are no percentages (AWS Neuron gives bits of a mask): told in per cent of a card all the same."""

from typing import Any

import pytest
from local.scheduler.clock import poll
from local.web.pages import Pages
from local.web.test_tables import rows_of

from gpuloom.kube import NODES

CORES = "aws.amazon.com/neuroncore"


@pytest.fixture
async def neuron(pages: Pages) -> Pages:
    """Beside n1 a node with two devices of two cores each; a pod has one core of the second."""
    has = {"aws.amazon.com/neuron": "2", CORES: "4"}
    status = {"capacity": has, "allocatable": has}
    await pages.site.client.create(NODES, {"metadata": {"name": "trn"}, "status": status})
    await poll(lambda: pages.site.process.state.cluster.has("trn"))
    await take_core(pages, "one")
    return pages


async def take_core(pages: Pages, name: str) -> None:
    containers = [{"name": "main", "image": "i", "resources": {"limits": {CORES: "1"}}}]
    assert await pages.site.choose(await pages.site.submit(name, spec={"containers": containers}), "trn") == "trn"


def half(*, of: int = 100) -> Any:
    return {"used": 50, "total": of}


async def test_a_card_tells_per_cent_of_itself_whoever_is_on_it(neuron: Pages) -> None:
    seen = await neuron.see("/cards/trn-AWSNeuron-1")
    assert (seen["cores"], [holder["cores"] for holder in seen["holders"]]) == (half(), [50])
    await take_core(neuron, "other")
    seen = await neuron.see("/cards/trn-AWSNeuron-1")
    assert (seen["cores"], [holder["cores"] for holder in seen["holders"]]) == ({"used": 100, "total": 100}, [50, 50])


async def test_sums_add_up_per_cent_of_cards(neuron: Pages) -> None:
    seen = await neuron.see("/overview")
    assert seen["cores"] == half(of=300)
    assert [model["cores"] for model in seen["models"] if model["model"] == "AWSNeuron"] == [half(of=200)]
    assert (await neuron.see("/nodes/trn"))["node"]["cores"] == half(of=200)


async def test_a_pod_its_decision_and_its_explanation_tell_per_cent_of_a_card(neuron: Pages) -> None:
    (row,) = (await neuron.see("/pods"))["items"]
    explanation, decision = await neuron.see("/explain/default/one"), await neuron.see("/decisions/1")
    shares = [*row["shares"], *explanation["held"]["shares"], *decision["shares"]]
    assert (row["cores"], [share["cores"] for share in shares]) == (50, [50, 50, 50])
    assert explanation["asks"] == [{"container": "main", "vendor": "AWSNeuron", "coreCount": 1}]
    assert "regular container main asks for 1 core<" in await neuron.read("/pods/default/one")
    assert {card["cores"]["total"] for node in explanation["nodes"] for card in node.get("cards", ())} == {100}


async def test_a_quota_of_whole_cores_counts_them_in_its_own_unit(neuron: Pages) -> None:
    (seen,) = (await neuron.see("/quotas"))["items"]
    assert seen == {"namespace": "default", "resource": CORES, "unit": "core", "used": 1}
    assert 'data-label="Held">1 core</td>' in await neuron.read("/quotas")


async def test_nodes_are_sorted_by_the_part_of_their_cores_that_is_allocated(neuron: Pages) -> None:
    await neuron.site.choose(await neuron.site.submit("fifth", memory_mib=1000, cores=20))
    assert rows_of(await neuron.read("/nodes?sort=-cores")) == ["trn", "n1"]
