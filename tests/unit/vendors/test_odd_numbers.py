"""Amounts that no number is, or that are too large: of every family nothing is asked for, and the webhook says so.

vendors 1.8, one row a family; the switch of D-20 restores HAMi's webhook.
"""

import pytest
from unit.vendors.test_quotas import CATALOG, Asked, ask_for, choose, review, start

from gpuloom.vendors.profile import Profile

TOO_LARGE = "2147483648"
NO_NUMBER = "1.5"
HAMIS_OWN = {"AMD", "AWSNeuron", "Enflame", "Mthreads"}
"""Families whose webhook answers with HAMi's error for some amounts, whatever the switch says."""


def hami_denies(profile: Profile, field: str, amount: str) -> bool:
    return profile.word in HAMIS_OWN or (bool(profile.traits.templates) and (field, amount) == ("memory", NO_NUMBER))


def spoil(profile: Profile, field: str, amount: str) -> Asked:
    names = profile.resources
    limited = "memory" if names.memory else "cores"
    asked = ask_for(profile, limited) if names.memory or names.cores else Asked({names.count: "1"}, {}, "", 0)
    limits = {**asked.limits, getattr(names, field): amount}
    if profile.word == "AWSNeuron":
        limits = {getattr(names, field): amount}
    return Asked(limits, asked.annotations, getattr(names, field), 0)


ROWS: list[tuple[Profile, str, str]] = [
    (profile, field, amount)
    for profile in CATALOG
    for field, amounts in (
        ("count", [TOO_LARGE]),
        ("memory", [NO_NUMBER, TOO_LARGE]),
        ("cores", [NO_NUMBER, TOO_LARGE]),
    )
    for amount in amounts
    if getattr(profile.resources, field)
    # Rounded up to a whole card, as every amount beyond a card's (vendors 4.10).
    and (profile.word, field, amount) != ("XPU", "memory", TOO_LARGE)
    # NVIDIA's cores that are no number count as the default, as its own rules say (scheduler 3).
    and (profile.word, field, amount) != ("NVIDIA", "cores", NO_NUMBER)
]


LENIENT_ROWS = [row for row in ROWS if not hami_denies(*row)]


def name_row(row: tuple[Profile, str, str]) -> str:
    profile, field, amount = row
    return f"{profile.word} {field} {amount}"


each_row = pytest.mark.parametrize(("profile", "field", "amount"), ROWS, ids=map(name_row, ROWS))


@pytest.mark.slow
@each_row
async def test_nothing_is_asked_for(profile: Profile, field: str, amount: str) -> None:
    """vendors 1.8 MLU; vendors 1.8 DCU; vendors 1.8 Ascend; vendors 1.8 Iluvatar; vendors 1.8 Mthreads;
    vendors 1.8 Metax-SGPU; vendors 1.8 AMD; vendors 1.8 others: those that are asked for a count alone.
    """
    assert await choose(await start(profile, []), spoil(profile, field, amount)) == "asks for nothing"


@pytest.mark.slow
@each_row
async def test_the_webhook_denies_and_names_the_amount(profile: Profile, field: str, amount: str) -> None:
    """D-20."""
    asked = spoil(profile, field, amount)
    response = await review(profile, asked)
    said = response["status"]["message"]
    assert not response["allowed"]
    assert asked.resource in said or (profile.word, field) == ("Mthreads", "memory")


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "field", "amount"), LENIENT_ROWS, ids=map(name_row, LENIENT_ROWS))
async def test_without_the_switch_the_webhook_lets_them_pass_as_hami_does(
    profile: Profile, field: str, amount: str
) -> None:
    """D-20."""
    assert (await review(profile, spoil(profile, field, amount), **{"strict-quantities": False}))["allowed"]


async def test_cores_of_nvidia_that_are_no_number_count_as_the_default() -> None:
    """vendors 1.8 NVIDIA."""
    profile = CATALOG["NVIDIA"]
    assert await choose(await start(profile, []), spoil(profile, "cores", NO_NUMBER)) == "fits"


async def test_memory_of_kunlun_slices_beyond_a_card_is_a_whole_card() -> None:
    """vendors 1.8 XPU."""
    profile = CATALOG["XPU"]
    assert await choose(await start(profile, []), spoil(profile, "memory", TOO_LARGE)) == "fits"
