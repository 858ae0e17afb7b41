"""Cards divided in HAMi's older way (device plugin 12.2)."""

import pytest

from gpuloom.model.mig import MigAllocation, MigPlacement
from gpuloom.model.share import Share
from gpuloom.node.mig.geometries import claim_positions, lay_out, lay_out_card
from gpuloom.node.nvml import Gpu, PartProfile
from gpuloom.wire.device_config import MigEntry, MigGeometries
from gpuloom.wire.errors import WireError
from gpuloom.wire.shares import decode_shares

KNOWN = (
    PartProfile("1g.5gb", 4864, 14, 7, tuple(MigPlacement(start, 1) for start in range(7))),
    PartProfile("2g.10gb", 9984, 28, 3, (MigPlacement(0, 2), MigPlacement(2, 2), MigPlacement(4, 2))),
    PartProfile("3g.20gb", 20096, 42, 2, (MigPlacement(0, 4), MigPlacement(4, 4))),
)


def entries(**counts):
    return [MigEntry(name=name.replace("_", "."), count=count) for name, count in counts.items()]


def test_equal_instances_lie_side_by_side():
    assert lay_out(entries(**{"3g_20gb": 2}), KNOWN) == (
        ("3g.20gb", MigPlacement(0, 4)),
        ("3g.20gb", MigPlacement(4, 4)),
    )


@pytest.mark.parametrize("order", [("1g_5gb", "2g_10gb"), ("2g_10gb", "1g_5gb")])
def test_positions_are_those_of_the_configuration(order):
    counts = {"1g_5gb": 1, "2g_10gb": 3}
    layout = lay_out(entries(**{name: counts[name] for name in order}), KNOWN)
    expected = [name.replace("_", ".") for name in order for _ in range(counts[name])]
    assert [name for name, _ in layout] == expected


def test_a_small_instance_listed_first_leaves_room_for_the_large_ones():
    layout = lay_out(entries(**{"1g_5gb": 1, "2g_10gb": 3}), KNOWN)
    assert layout[0] == ("1g.5gb", MigPlacement(6, 1))


@pytest.mark.parametrize("counts", [{"3g_20gb": 3}, {"9g_90gb": 1}, {"1g_5gb": 10**6}, {}])
def test_a_geometry_that_the_card_cannot_have_has_no_places(counts):
    assert lay_out(entries(**counts), KNOWN) == ()


GROUPS = (
    MigGeometries(("A30",), ((MigEntry("1g.6gb", count=4),),)),
    MigGeometries(("A100-SXM4-40GB",), (tuple(entries(**{"1g_5gb": 7})), tuple(entries(**{"3g_20gb": 2})))),
)


def test_a_card_has_the_geometries_of_its_model():
    layouts = lay_out_card(Gpu("GPU-a", 0, "NVIDIA A100-SXM4-40GB", 40960, ""), KNOWN, GROUPS)
    assert [len(layout) for layout in layouts] == [7, 2]


def test_a_card_of_another_model_has_none():
    assert lay_out_card(Gpu("GPU-a", 0, "NVIDIA L4", 23034, ""), KNOWN, GROUPS) == ()


LAYOUTS = {"GPU-a": (lay_out(entries(**{"1g_5gb": 7}), KNOWN), lay_out(entries(**{"3g_20gb": 2}), KNOWN))}


def claim(uuid):
    return claim_positions([Share(uuid, "NVIDIA", 20480, 42)], 3, LAYOUTS)


def test_a_position_is_an_instance_and_its_place():
    assert claim("GPU-a[1-1]") == [MigAllocation(3, 0, "GPU-a", "3g.20gb", MigPlacement(4, 4))]


@pytest.mark.parametrize(
    ("order", "profiles"),
    [
        (("2g_10gb", "1g_5gb"), ["2g.10gb", "2g.10gb"]),
        (("1g_5gb", "2g_10gb"), ["1g.5gb", "2g.10gb"]),
    ],
    ids=["HAMi up to 2.7", "HAMi 2.8 and 2.9"],
)
def test_example_two_instances_of_8000_mib_are_what_the_configurations_order_makes_them(order, profiles):
    counts = {"1g_5gb": 1, "2g_10gb": 3}
    layouts = {
        "GPU-x": (lay_out(entries(**{"1g_5gb": 7}), KNOWN), lay_out(entries(**{n: counts[n] for n in order}), KNOWN))
    }
    ((first, second), *_) = decode_shares("GPU-x[1-0],NVIDIA,10240,0:GPU-x[1-1],NVIDIA,10240,0:;")
    claims = claim_positions([first, second], 0, layouts)
    assert [claim.profile for claim in claims] == profiles
    assert not claims[0].placement.overlaps(claims[1].placement)


@pytest.mark.parametrize("uuid", ["GPU-a", "GPU-a[1]", "GPU-a[1-2]", "GPU-a[2-0]", "GPU-b[1-1]"])
def test_a_bad_position_is_refused(uuid):
    with pytest.raises(WireError):
        claim(uuid)
