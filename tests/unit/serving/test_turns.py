"""Turns at what all share: whoever asks for very much keeps nobody else waiting (trust T-09)."""

import asyncio

from gpuloom.serving.turns import FairTurns


async def test_each_asker_has_few_turns_at_a_time_and_nobody_waits_for_anothers() -> None:
    turns, over = FairTurns(2), asyncio.Event()
    begun: list[str] = []

    async def ask(who: str) -> None:
        async with turns.take(who):
            begun.append(who)
            await over.wait()

    tasks = [asyncio.create_task(ask(who)) for who in [*["greedy"] * 5, "other"]]
    for _ in range(10):
        await asyncio.sleep(0)
    assert begun == ["greedy", "greedy", "other"]
    tasks[2].cancel()
    over.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert begun == ["greedy", "greedy", "other", "greedy", "greedy"]
