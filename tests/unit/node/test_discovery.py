from dataclasses import replace

import pytest

from gpuloom.model.mig import MigPlacement, MigProfile
from gpuloom.node.discovery import build_cards, explain_omissions
from gpuloom.node.mig.offers import MigOffer
from gpuloom.node.nvml import Gpu
from gpuloom.node.settings import NodeSettings
from gpuloom.wire.register import encode_register

RTX = Gpu(
    uuid="GPU-7aebc545-cbd3-18a0-afce-76cae449702a",
    index=0,
    name="NVIDIA GeForce RTX 3090",
    memory_mib=24576,
    pci_bus_id="00000000:3B:00.0",
)


def test_the_documented_card_gives_the_documented_csv7_record():
    settings = NodeSettings("n1", register_format="csv7", device_core_scaling=3)
    record = "GPU-7aebc545-cbd3-18a0-afce-76cae449702a,10,24576,300,NVIDIA-NVIDIA GeForce RTX 3090,0,true:"
    assert encode_register(build_cards([RTX], settings), "csv7") == record


def test_scaled_memory_is_cut_to_whole_mebibytes():
    cards = build_cards([replace(RTX, memory_mib=7680)], NodeSettings("n1", device_memory_scaling=1.8))
    assert cards[0].memory_mib == 13824


@pytest.mark.parametrize(
    ("name", "form", "model"),
    [
        ("NVIDIA A40", "json", "NVIDIA A40"),
        ("Tesla T4", "json", "NVIDIA-Tesla T4"),
        ("NVIDIA A40", "csv9", "NVIDIA-NVIDIA A40"),
        ("Tesla T4", "csv7", "NVIDIA-Tesla T4"),
    ],
)
def test_the_model_is_named_as_the_register_format_wants_it(name, form, model):
    cards = build_cards([replace(RTX, name=name)], NodeSettings("n1", register_format=form))
    assert cards[0].model == model


def test_p_03_cards_stand_in_the_order_of_their_indexes():
    gpus = [replace(RTX, uuid=f"GPU-{index}", index=index) for index in (2, 0, 1)]
    assert [card.index for card in build_cards(gpus, NodeSettings("n1"))] == [0, 1, 2]


def test_a_card_filtered_by_uuid_or_by_index_is_left_out():
    gpus = [replace(RTX, uuid=f"GPU-{index}", index=index) for index in range(3)]
    settings = NodeSettings("n1", filter_uuids=frozenset({"GPU-0"}), filter_indexes=frozenset({2}))
    assert [card.id for card in build_cards(gpus, settings)] == ["GPU-1"]


def test_the_preconfigured_memory_stands_in_for_a_card_that_cannot_tell():
    cards = build_cards([replace(RTX, memory_mib=None)], NodeSettings("n1", preconfigured_memory_mib=96000))
    assert cards[0].memory_mib == 96000


def test_a_card_that_tells_its_memory_ignores_the_preconfigured_one():
    assert build_cards([RTX], NodeSettings("n1", preconfigured_memory_mib=96000))[0].memory_mib == 24576


def test_a_card_of_unknown_memory_is_left_out():
    assert build_cards([replace(RTX, memory_mib=None)], NodeSettings("n1")) == ()


@pytest.mark.parametrize(
    "scaling",
    [
        {"device_memory_scaling": 1e6},
        {"device_memory_scaling": 1e308},
        {"device_memory_scaling": 1e-9},
        {"device_core_scaling": 1e9},
        {"preconfigured_memory_mib": 2**40},
    ],
)
def test_a_card_whose_amounts_no_scheduler_could_read_is_left_out_with_the_reason(scaling):
    known, settings = (
        replace(RTX, memory_mib=None if "preconfigured_memory_mib" in scaling else 24576),
        NodeSettings("n1", **scaling),
    )
    reasons = [reason for _, reason in explain_omissions([known], settings)]
    assert (build_cards([known], settings), ["than can be registered" in one for one in reasons]) == ((), [True])


def test_an_unknown_numa_node_counts_as_the_first():
    assert build_cards([replace(RTX, numa=-1)], NodeSettings("n1"))[0].numa == 0


def test_a_sick_card_stays_listed_as_sick():
    assert not build_cards([replace(RTX, healthy=False)], NodeSettings("n1"))[0].healthy


OFFER = MigOffer((MigProfile("1g.5gb", 4864, 15, 1, (MigPlacement(0, 1),)),), count=7)


def test_a_divided_card_is_not_scaled():
    settings = NodeSettings("n1", mode="mig", device_memory_scaling=2, device_core_scaling=3)
    (card,) = build_cards([RTX], settings, {RTX.uuid: OFFER})
    assert (card.memory_mib, card.cores, card.count, card.mode, card.mig_profiles) == (
        24576,
        100,
        7,
        "mig",
        OFFER.profiles,
    )


def test_in_mode_mig_a_card_that_offers_nothing_is_left_out():
    assert build_cards([RTX], NodeSettings("n1", mode="mig")) == ()


def test_a_card_that_is_cut_into_parts_is_not_shared_as_a_whole():
    assert build_cards([replace(RTX, can_be_divided=True)], NodeSettings("n1")) == ()
