"""Nobody is evicted in vain, and nobody waits whom the less important could let in, whatever happens when.

``make churns`` runs a thousand of these; ``CHURNS`` says how many, ``FIRST`` where to begin.
"""

import os
from random import Random

import pytest
from local.scheduler.churn import NODES, Churn
from local.scheduler.site import Site, card

FIRST, CHURNS = int(os.environ.get("FIRST", "0")), int(os.environ.get("CHURNS", "6"))
ROUNDS = 25


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CHURNS))
async def test_every_victim_was_needed_and_no_card_is_exceeded(empty: Site, seed: int) -> None:
    chance = Random(seed)
    churn = Churn(empty, chance)
    await churn.start()
    for name in NODES:
        await empty.register(name, card(name))
    number = 0
    # Of some seeds the first pods need no eviction.
    while number < ROUNDS or not churn.book.evicting:
        for _ in range(chance.randint(0, 3)):
            await churn.create()
        await churn.schedule()
        await churn.pause()
        churn.check()
        await churn.let_leavers_go()
        if chance.random() < 0.2:
            await churn.delete_somebody()
        if number % 10 == 9:
            await churn.kill()
        number += 1
    await churn.settle()
    churn.check()
    assert churn.book.find_unserved(churn.state) == []
    assert churn.book.find_in_vain() == []
