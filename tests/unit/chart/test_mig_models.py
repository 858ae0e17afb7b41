"""By the chart's default values, a card of each model that NVIDIA's driver names may be divided as it can be."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuloom.node.mig.offers import build_offer
from gpuloom.node.nvml import Gpu, PartProfile
from gpuloom.wire.device_config import MigAllowlist

VALUES = Path(__file__).parents[3] / "charts/gpuloom/values.yaml"
HAMI = Path(__file__).parents[2] / "data/device-config.default.json"
H200 = (
    PartProfile("1g.18gb", 16384, 16, 7, ()),
    PartProfile("1g.18gb+me", 16384, 16, 1, ()),
    PartProfile("1g.35gb", 33280, 26, 4, ()),
    PartProfile("2g.35gb", 33280, 32, 3, ()),
    PartProfile("3g.71gb", 71424, 60, 2, ()),
    PartProfile("4g.71gb", 71424, 64, 1, ()),
    PartProfile("7g.141gb", 143360, 132, 1, ()),
)
"""As driver 580.159.04 tells them of an H200, without the placements."""
A100_40, A100_80, H100_80, H100_94, GH200_96, H200_141 = (
    ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"),
    ("1g.10gb", "2g.20gb", "3g.40gb", "7g.79gb"),
    ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"),
    ("1g.12gb", "2g.24gb", "3g.47gb", "7g.94gb"),
    ("1g.12gb", "2g.24gb", "3g.48gb", "7g.96gb"),
    ("1g.18gb", "2g.35gb", "3g.71gb", "7g.141gb"),
)


def read_groups(path: Path, *keys: str) -> tuple[MigAllowlist, ...]:
    content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key in (*keys, "migProfileAllowlist"):
        content = content[key]
    return tuple(MigAllowlist(tuple(group["models"]), tuple(group["profiles"])) for group in content)


GROUPS = read_groups(VALUES, "devices", "nvidia")
ALL = tuple(PartProfile(name, 1, 1, 1, ()) for group in GROUPS for name in group.profiles)
"""What a card would tell that can be divided in every way."""


def offer(model: str, known: tuple[PartProfile, ...] = ALL) -> list[str]:
    found = build_offer(Gpu("GPU-a", 0, model, 1, ""), known, GROUPS)
    return [] if found is None else list(dict.fromkeys(profile.name for profile in found.profiles))


@pytest.mark.parametrize(
    ("model", "profiles"),
    [
        ("NVIDIA A100-SXM4-40GB", A100_40),
        ("NVIDIA A100-PCIE-40GB", A100_40),
        ("NVIDIA A100-SXM4-80GB", A100_80),
        ("NVIDIA A100 80GB PCIe", A100_80),
        ("NVIDIA H100 80GB HBM3", H100_80),
        ("NVIDIA H100 PCIe", H100_80),
        ("NVIDIA H100 NVL", H100_94),
        ("NVIDIA GH200 480GB", GH200_96),
        ("NVIDIA H20", GH200_96),
        ("NVIDIA H200", H200_141),
        ("NVIDIA H200 NVL", H200_141),
    ],
)
def test_a_model_as_the_driver_names_it_has_its_own_profiles(model: str, profiles: tuple[str, ...]) -> None:
    assert sorted(offer(model)) == sorted(profiles)


def test_an_h200_is_offered_by_all_the_profiles_of_its_group() -> None:
    assert offer("NVIDIA H200", H200) == list(H200_141)


@pytest.mark.parametrize("group", read_groups(HAMI, "nvidia"), ids=lambda group: group.models[0])
def test_each_group_of_hami_is_there_with_its_models_and_profiles(group: MigAllowlist) -> None:
    (ours,) = (each for each in GROUPS if each.profiles == group.profiles)
    assert set(group.models) <= set(ours.models)
