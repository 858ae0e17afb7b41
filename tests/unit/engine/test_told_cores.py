"""Cores as people are told of them: in per cent of a card, also where a profile says that its numbers are none."""

import numpy as np
import pytest
from builders import NVIDIA, container, pod

from gpuloom.engine.explanation.cores import count_asked, in_per_cent, share_in_per_cent, unit_of_cores
from gpuloom.engine.explanation.headline import tell_asks
from gpuloom.engine.request.demand import read_demand
from gpuloom.engine.request.options import Options
from gpuloom.engine.state.cluster_state import ClusterState
from gpuloom.model.request import PERCENTAGE_NOT_SET, Request
from gpuloom.vendors.catalog import load_default_profiles, make_catalog

CATALOG = make_catalog(load_default_profiles())


@pytest.mark.parametrize(
    ("word", "used", "total", "percent"),
    [
        ("AWSNeuron", 0b10, 0b11, (50, 100)),
        ("AWSNeuron", 0b11, 0b11, (100, 100)),
        ("AWSNeuron", 0b1, 0b1, (100, 100)),
        ("AMD", 76, 304, (25, 100)),
        ("AMD", 1, 304, (1, 100)),
        ("AMD", 0, 0, (0, 0)),
        ("NVIDIA", 30, 100, (30, 100)),
        ("NVIDIA", 150, 200, (150, 200)),
    ],
)
def test_cores_are_told_in_per_cent_of_the_card(word: str, used: int, total: int, percent: tuple[int, int]) -> None:
    told = in_per_cent(CATALOG[word], np.array([used]), np.array([total]))
    assert tuple(column.tolist() for column in told) == ([percent[0]], [percent[1]])


@pytest.mark.parametrize(("word", "cores", "percent"), [("AWSNeuron", 0b10, 100), ("AMD", 76, 100), ("NVIDIA", 30, 30)])
def test_of_a_card_that_is_gone_what_is_held_is_all_that_is_known(word: str, cores: int, percent: int) -> None:
    assert share_in_per_cent(ClusterState(CATALOG), "n1", word, "gone", cores) == percent


@pytest.mark.parametrize(("word", "unit"), [("AWSNeuron", "core"), ("AMD", "compute unit"), ("NVIDIA", "%")])
def test_quotas_count_cores_in_the_unit_in_which_they_are_given_out(word: str, unit: str) -> None:
    assert unit_of_cores(CATALOG[word]) == unit


@pytest.mark.parametrize(("asked", "told"), [(150, 100), (100, 100), (30, 30)])
def test_who_asks_for_more_than_a_whole_card_is_told_what_counts(asked: int, told: int) -> None:
    """Scheduler 6.3, row 8."""
    (ask,) = tell_asks(read_demand(pod(container(gpu=1, gpucores=asked)), NVIDIA, Options()), NVIDIA)
    assert ask.cores == told


def test_where_more_than_a_whole_card_is_not_less_it_is_told_as_it_is() -> None:
    """Vendors: the cores of MetaX shares are not clamped."""
    asked = Request("Metax-SGPU", 1, 1000, PERCENTAGE_NOT_SET, 150)
    assert count_asked(CATALOG["Metax-SGPU"], asked) == 150
