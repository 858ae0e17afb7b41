"""What containers ask of vendors: what the webhook makes of it, and what is no request."""

from typing import Any

import pytest
from unit.vendors.test_examples import EXAMPLES, TIME, Example, ask, capacity
from unit.vendors.test_neighbours import choose

from gpuloom.scheduler.recording import Player


async def review(example: Example, limits: dict[str, str]) -> dict[str, Any]:
    """Return the webhook's answer to a pod with one container."""
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}}
    request = {"uid": "u", "namespace": "default", "object": pod}
    asked = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    settings = {"type": "SETTINGS", "flags": {**example.flags}, "deviceConfig": example.config, "time": TIME}
    answer = await ask(Player(), settings, {"type": "REVIEW", "id": "r", "review": asked})
    response: dict[str, Any] = answer["response"]["response"]
    return response


IRRELEVANT = Example(capacity(), {}, {}, flags={"enable-iluvatar": True})


async def test_a_container_with_two_chips_of_iluvatar_is_told_its_name_once() -> None:
    answer = await review(IRRELEVANT, {"iluvatar.ai/MR-V100-vgpu": "1", "iluvatar.ai/BI-V150-vgpu": "1"})
    variables = [change["value"] for change in answer["patch"] if "/env/" in change["path"]]
    assert variables == [{"name": "SOL_CONTINER_NAME", "value": "c"}]


async def test_an_amount_that_the_webhook_replaces_is_not_denied() -> None:
    answer = await review(IRRELEVANT, {"iluvatar.ai/MR-V100-vgpu": "2", "iluvatar.ai/MR-V100.vCore": "3000000000"})
    assert answer["allowed"]


@pytest.mark.parametrize("amount", ["3000000000", "16Gi"])
async def test_memory_of_slices_that_no_card_has_is_denied_without_a_number_of_slices_too(amount: str) -> None:
    answer = await review(IRRELEVANT, {"enflame.com/gcu-memory": amount})
    assert (answer["allowed"], answer["status"]["code"]) == (False, 403)


async def test_no_memory_at_all_is_no_request_for_slices() -> None:
    answer = await choose(EXAMPLES["Enflame DRS"], {"enflame.com/gcu-memory": "0"})
    assert [event["message"] for event in answer["events"]] == ["does not request any resource"]
