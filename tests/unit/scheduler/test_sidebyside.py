"""Doing the same with very many things, a few of them at a time."""

import asyncio

import pytest

from gpuloom.scheduler.sidebyside import do_side_by_side


class Doing:
    """Notes what is begun and what is done; each takes a few turns of the loop, that of the thing 0 very many."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.done: list[int] = []

    async def do(self, thing: int) -> None:
        self.begun.append(thing)
        for _turn in range(3 if thing else 100):
            await asyncio.sleep(0)
        self.done.append(thing)


async def test_all_are_begun_in_order_and_done() -> None:
    doing = Doing()
    await do_side_by_side(range(1, 20), doing.do, at_once=4)
    assert (doing.begun, sorted(doing.done)) == (list(range(1, 20)), list(range(1, 20)))


async def test_one_that_takes_long_keeps_only_its_own_place() -> None:
    doing = Doing()
    await do_side_by_side(range(20), doing.do, at_once=2)
    assert doing.done[-1] == 0


async def test_what_one_raises_ends_all() -> None:
    doing = Doing()

    async def fail_at_the_third(thing: int) -> None:
        if thing == 3:
            raise ValueError
        await doing.do(thing)

    with pytest.raises(ExceptionGroup):
        await do_side_by_side(range(20), fail_at_the_third, at_once=2)
    assert max(doing.begun) < 3
    assert 0 not in doing.done
