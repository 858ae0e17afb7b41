"""Profiles, the catalogue made of them, and what a device configuration changes (vendors 0.3, 2, 3)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuloom.engine.filtering.rule_table import RULES
from gpuloom.model.checks import CHECKS
from gpuloom.vendors.catalog import (
    Catalog,
    add_families,
    default_profiles,
    load_default_profiles,
    load_shipped,
    make_catalog,
)
from gpuloom.vendors.device_config import apply_device_config, write_device_config
from gpuloom.vendors.hooks import HOOKS
from gpuloom.vendors.profile import Profile, ProfileError
from gpuloom.vendors.profilecheck import hooks_of
from gpuloom.vendors.profilefile import read_family

DEFAULT_CONFIG = Path(__file__).parents[2] / "data" / "device-config.default.json"
ALL_FLAGS = ("enable-ascend", "enable-iluvatar", "metax-same-card", "ascend-round-unseen", "neuron-core-ids")
OWN = b"""
word = "Acme"
name = "Acme accelerator"
plugin = "acme"
resources = { count = "acme.example/card" }
container = { mutate = "recognize" }
cards = { register = "acme.example/register" }
fit = { checks = ["health", "slots"] }
write = { to_allocate = "", allocated = "acme.example/allocated" }
"""


def shipped() -> Catalog:
    return make_catalog(load_default_profiles(), ALL_FLAGS)


def configure(config: Any, *flags: str) -> Catalog:
    return make_catalog(apply_device_config(load_shipped(), config, "device-config.yaml"), flags or ALL_FLAGS)


def resources(profile: Profile) -> tuple[str, str, str]:
    return profile.resources.count, profile.resources.memory, profile.resources.cores


def test_thirteen_families_are_there() -> None:
    names = {profile.name.split(" ")[0] for profile in shipped()}
    assert names == {
        "AMD", "AWS", "Biren", "Cambricon", "Enflame", "Huawei", "Hygon", "Iluvatar",
        "Kunlunxin", "Metax", "Moore", "NVIDIA", "Vastai",
    }  # fmt: skip


def test_vendors_come_in_ascending_order_of_their_words() -> None:
    words = [profile.word for profile in shipped()]
    assert words == sorted(words)


def test_every_check_that_a_profile_may_name_has_one_rule() -> None:
    assert set(RULES) == set(CHECKS)


def test_every_check_and_every_hook_is_used_by_a_profile() -> None:
    profiles = [profile for family in load_shipped() for profile in family.profiles]
    assert {check for profile in profiles for check in profile.fit.checks} == set(CHECKS)
    used = {(field, name) for profile in profiles for field, name in hooks_of(profile).items() if name}
    assert used == {(field, name) for field, names in HOOKS.items() for name in names}


def test_the_charts_device_configuration_is_what_the_profiles_say() -> None:
    catalog = configure(json.loads(DEFAULT_CONFIG.read_text()))
    assert {profile.word: resources(profile) for profile in catalog} == {
        profile.word: resources(profile) for profile in shipped()
    }
    assert {profile.word: profile.traits for profile in catalog} == {
        profile.word: profile.traits for profile in shipped()
    }


def test_a_device_configuration_is_written_as_it_is_read() -> None:
    config = json.loads(DEFAULT_CONFIG.read_text())
    first = apply_device_config(load_shipped(), config, "c")
    assert apply_device_config(load_shipped(), write_device_config(first), "c") == first


@pytest.mark.parametrize("flag", ["enable-ascend", "enable-iluvatar"])
def test_some_families_are_off_until_a_flag_switches_them_on(flag: str) -> None:
    without = {profile.word for profile in make_catalog(load_default_profiles())}
    assert {
        profile.config.flag for profile in make_catalog(load_default_profiles(), (flag,)) if profile.word not in without
    } == {flag}


def test_a_family_without_a_section_is_off() -> None:
    assert [profile.word for profile in configure({"biren": {"resourceCountName": "b/gpu"}})] == ["Biren"]


@pytest.mark.parametrize(
    "section",
    [
        [{"chipName": "910B3", "commonWord": "Ascend910B3", "resourceName": "h/n", "resourceMemoryName": "h/m"}],
        {
            "hamiVnpuCore": True,
            "configs": [{"commonWord": "Ascend910B3", "resourceName": "h/n", "resourceMemoryName": "h/m"}],
        },
    ],
    ids=["list", "with common keys"],
)  # fmt: skip
def test_both_shapes_of_the_ascend_section_are_read(section: Any) -> None:
    (profile,) = configure({"vnpus": section})
    assert (profile.word, resources(profile)) == ("Ascend910B3", ("h/n", "h/m", ""))
    assert profile.write.allocated == "hami.io/Ascend910B3-devices-allocated"
    assert profile.traits.soft_split is isinstance(section, dict)


def test_both_shapes_of_iluvatar_are_read_beside_each_other() -> None:
    catalog = configure(
        {
            "iluvatar": {"resourceCountName": "iluvatar.ai/vgpu"},
            "iluvatars": [{"commonWord": "MR-V100", "resourceCountName": "iluvatar.ai/MR-V100-vgpu"}],
        }
    )
    assert [profile.word for profile in catalog] == ["Iluvatar", "MR-V100"]


def test_enflames_older_key_means_the_same() -> None:
    (profile,) = configure({"enflame": {"resourceNameVGCU": "enflame.com/vgcu"}})
    assert profile.resources.count == "enflame.com/vgcu"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hygon": {"resourceCountName": 7}}, r"hygon\.resourceCountName is 7, it must be text"),
        ({"hygon": 7}, r"hygon must be a table"),
        ({"vnpus": {"configs": 7}}, r"vnpus must be a list"),
        ({"iluvatars": [{"resourceCountName": "a/b"}]}, r"iluvatars\[0\]: commonWord is missing"),
        ({"hygon": {"resourceCountName": "a/b", "resourcememoryname": "a/c"}}, "did you mean resourceMemoryName"),
    ],
)
def test_a_section_that_cannot_be_used_is_named(config: Any, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        configure(config)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"slots"]', b'"slotz"]', r"own\.toml: unknown check slotz in fit\.checks; did you mean slots\?"),
        (b"count =", b"cuont =", r"own\.toml: unknown key resources\.cuont; did you mean count\?"),
        (b'"recognize"', b'"recognise"', r"unknown hook recognise in container\.mutate; did you mean recognize\?"),
        (b"plugin =", b"plugins =", r"own\.toml: unknown key plugins; did you mean plugin\?"),
        (b'word = "Acme"', b"", r"own\.toml: .*word"),
        (b'register = "acme.example/register"', b'source = "capacity"', r"cards\.id must hold"),
        (b'register = "acme.example/register"', b"", r"cards\.register is empty"),
        (b'"acme.example/allocated"', b'""', r"write\.allocated is empty"),
        (b"word", b"[word", r"own\.toml: not a TOML file"),
    ],
)
def test_a_profile_that_cannot_be_used_says_what_was_meant(old: bytes, new: bytes, message: str) -> None:
    assert old in OWN
    with pytest.raises(ProfileError, match=message):
        read_family(OWN.replace(old, new), "own.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"acme.example/card", b"nvidia.com/gpu", "resource nvidia.com/gpu is used by both"),
        (
            b"acme.example/register",
            b"hami.io/node-dcu-register",
            "node annotation hami.io/node-dcu-register is used by",
        ),
        (b"acme.example/allocated", b"hami.io/dcu-devices-allocated", "pod annotation hami.io/dcu-devices-allocated"),
    ],
)
def test_two_profiles_do_not_share_names(old: bytes, new: bytes, message: str) -> None:
    own = read_family(OWN.replace(old, new), "own.toml").profiles
    with pytest.raises(ProfileError, match=message):
        make_catalog((*load_default_profiles(), *own))


def test_a_users_profile_takes_the_place_of_a_shipped_one_of_the_same_word() -> None:
    own = read_family(OWN.replace(b'"Acme"', b'"Biren"', 1), "own.toml")
    families = add_families(load_shipped(), [own])
    assert [one.name for one in families if any(p.word == "Biren" for p in one.profiles)] == ["own.toml"]


ASCEND = [profile.word for family in load_shipped() for profile in family.profiles if profile.word.startswith("Ascend")]
OWN_CHIP = read_family(OWN.replace(b'"Acme"', b'"Ascend910B3"', 1), "own.toml")


def test_a_users_profile_of_one_chip_leaves_the_other_chips() -> None:
    found = default_profiles(add_families(load_shipped(), [OWN_CHIP]))
    chips = {one.word: one.resources.count for one in found if one.word.startswith("Ascend")}
    assert (sorted(chips), chips["Ascend910B3"]) == (sorted(ASCEND), "acme.example/card")


def test_a_users_profile_takes_the_place_of_a_chip_of_the_device_configuration() -> None:
    chips = [
        {"commonWord": word, "resourceName": f"huawei.com/{word}", "resourceMemoryName": f"huawei.com/{word}-memory"}
        for word in ("Ascend910B3", "Ascend310P")
    ]
    found = apply_device_config(add_families(load_shipped(), [OWN_CHIP]), {"vnpus": chips}, "c")
    names = {one.word: one.resources.count for one in make_catalog(found, ["enable-ascend"])}
    assert names == {"Ascend310P": "huawei.com/Ascend310P", "Ascend910B3": "acme.example/card"}


def test_a_users_copy_of_a_file_with_chips_takes_the_place_of_all_of_them() -> None:
    (shipped,) = [family for family in load_shipped() if family.name == "ascend.toml"]
    own = replace(shipped, name="own.toml", profiles=shipped.profiles[:1])
    families = add_families(load_shipped(), [own])
    assert [one.name for one in families if one.config.section == "vnpus"] == ["own.toml"]


def test_a_users_profile_stays_when_a_device_configuration_says_nothing_of_it() -> None:
    families = add_families(load_shipped(), [read_family(OWN, "own.toml")])
    found = apply_device_config(families, {"hygon": {"resourceCountName": "h/n"}}, "c")
    assert [profile.word for profile in make_catalog(found)] == ["Acme", "DCU"]
