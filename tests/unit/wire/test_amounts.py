"""What kube-apiserver refuses of the amounts that containers ask for."""

import pytest

from gpuloom.wire.amounts import NOT_QUANTITY, all_containers, find_misspelt, find_unusable

NEGATIVE = "must be greater than or equal to 0"
CARDS = "nvidia.com/gpu"


def pod(limits=None, requests=None, field="containers"):
    return {"spec": {field: [{"name": "main", "resources": {"limits": limits, "requests": requests}}]}}


def look(pod, find):
    causes = (one for path, container in all_containers(pod) for one in find(path, container.get("resources") or {}))
    return [f"{one.field}: {one.message}" for one in causes]


def judge(limits=None, requests=None):
    return look(pod(limits, requests), find_unusable)


@pytest.mark.parametrize("amount", ["abc", "two", "", "1 Gi", "5K", "9" * 200])
@pytest.mark.parametrize("kind", ["limits", "requests"])
@pytest.mark.parametrize("field", ["containers", "initContainers"])
@pytest.mark.parametrize("resource", ["cpu", CARDS])
def test_an_amount_that_is_no_quantity_is_misspelt_and_named(amount, kind, field, resource):
    (told,) = look(pod(**{kind: {resource: amount}}, field=field), find_misspelt)
    assert told == f'spec.{field}[0].resources.{kind}[{resource}]: Invalid value: "{amount[:80]}": {NOT_QUANTITY}'


@pytest.mark.parametrize("amount", ["1", 1, 1.5, "-1", "500m", "1e3", "1.5Gi"])
def test_a_quantity_is_not_misspelt_whatever_it_is_worth(amount):
    assert not look(pod({"cpu": amount, CARDS: amount}), find_misspelt)


@pytest.mark.parametrize("amount", [{}, {"limits": None}, {"limits": {}}])
def test_who_asks_for_nothing_has_nothing_misspelt(amount):
    assert not look({"spec": {"containers": [{"resources": amount}, {"resources": None}, {}]}}, find_misspelt)


@pytest.mark.parametrize("amount", ["-1", -1, "-500m", "-1Gi"])
@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage"])
def test_a_negative_amount_is_refused(amount, resource):
    where = f"spec.containers[0].resources.limits[{resource}]"
    assert judge({resource: amount}) == [f'{where}: Invalid value: "{amount}": {NEGATIVE}']


@pytest.mark.parametrize("amount", ["1500m", "1.5", 1.5, "0.0001Ki"])
def test_a_part_of_what_comes_in_wholes_is_refused(amount):
    where = f"spec.containers[0].resources.limits[{CARDS}]"
    assert judge({CARDS: amount}) == [f'{where}: Invalid value: "{amount}": must be an integer']


@pytest.mark.parametrize("amount", ["0", "2", 2, "1.0", 1.0, "2000m", "1.5k", "1.5Ki", "1e3", "100Ti"])
def test_whole_amounts_are_taken_however_they_are_written(amount):
    assert judge({CARDS: amount}, {CARDS: amount}) == []


@pytest.mark.parametrize("amount", ["1500m", "0.5", "1.5Gi"])
def test_a_node_s_own_resources_come_in_parts(amount):
    assert judge({"cpu": amount, "memory": amount}) == []


def test_what_is_both_negative_and_a_part_is_told_so():
    where = f"spec.containers[0].resources.limits[{CARDS}]"
    told = [f'{where}: Invalid value: "-1500m": {detail}' for detail in (NEGATIVE, "must be an integer")]
    assert judge({CARDS: "-1500m"}) == told


@pytest.mark.parametrize(("request_", "limit"), [("2", "1"), ("1200m", "1100m"), ("1025Mi", "1Gi")])
def test_a_request_above_its_limit_is_refused(request_, limit):
    where = "spec.containers[0].resources.requests"
    detail = f"must be less than or equal to cpu limit of {limit}"
    assert judge({"cpu": limit}, {"cpu": request_}) == [f'{where}: Invalid value: "{request_}": {detail}']


@pytest.mark.parametrize(("request_", "limit"), [("1", "2"), ("2", "1")])
def test_cards_are_requested_as_they_are_limited(request_, limit):
    where = "spec.containers[0].resources.requests"
    detail = f"must be equal to {CARDS} limit of {limit}"
    assert judge({CARDS: limit}, {CARDS: request_}) == [f'{where}: Invalid value: "{request_}": {detail}']


def test_cards_are_not_requested_without_a_limit():
    told = "Required value: Limit must be set for non overcommitable resources"
    assert judge(requests={CARDS: "1"}) == [f"spec.containers[0].resources.limits: {told}"]


def test_a_request_below_its_limit_or_without_one_is_taken():
    assert judge({"cpu": "2"}, {"cpu": "1", "memory": "1Gi"}) == []
