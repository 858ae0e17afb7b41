"""Questions to the API server about people: how many there may be (trust T-16)."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import pytest

from gpuloom.serving.reviews import UserInfo
from gpuloom.serving.rights import Rights, RightsError, User
from gpuloom.web.rights import MOST_NAMESPACES, view


class Asked:
    """Stands for the rights of somebody who may see the pods of one namespace."""

    def __init__(self, seen: str) -> None:
        self.seen = seen
        self.names: list[str] = []

    async def may(self, _user: User, _verb: str, _resource: str, namespace: str = "") -> bool:
        self.names.append(namespace)
        return namespace == self.seen


class Slow:
    """A client whose API server does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    async def create(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        await asyncio.Event().wait()


async def test_so_many_namespaces_are_asked_about_and_those_named_come_first() -> None:
    asked: Any = Asked("zoo")
    found = await view(asked, User(UserInfo("somebody"), b""), ["zoo"], lambda: [f"n{at}" for at in range(5000)])
    assert len([name for name in asked.names if name]) == MOST_NAMESPACES
    assert found.sees("zoo")


async def count_refused(questions: Iterable[Coroutine[Any, Any, object]]) -> int:
    """Ask all at once, and count those that nobody asks the API server."""
    tasks = [asyncio.create_task(one) for one in questions]
    for _ in range(1000):  # However often they get a turn, nobody else comes through.
        await asyncio.sleep(0)
    done = [task for task in tasks if task.done()]
    for task in done:
        with pytest.raises(RightsError, match="at once"):
            task.result()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return len(done)


async def test_questions_beyond_those_that_wait_are_refused() -> None:
    client: Any = Slow()
    rights = Rights(client)
    assert await count_refused(rights.recognise(f"t-{at}", f"10.0.0.{at % 10}") for at in range(300)) == 300 - 256
    assert client.asked == 16


async def test_one_address_keeps_nobody_else_out() -> None:
    client: Any = Slow()
    rights, addresses = Rights(client), [*["10.0.0.1"] * 300, "10.0.0.2"]
    assert await count_refused(rights.recognise(f"t-{at}", who) for at, who in enumerate(addresses)) == 300 - 64


async def test_service_accounts_of_one_namespace_keep_nobody_else_out() -> None:
    client: Any = Slow()
    rights, names = Rights(client), [*(f"system:serviceaccount:evil:a{at}" for at in range(300)), "other"]
    people = [User(UserInfo(name), str(at).encode()) for at, name in enumerate(names)]
    assert await count_refused(rights.may(one, "list", "nodes") for one in people) == 300 - 64


async def test_one_person_with_many_tokens_keeps_nobody_else_out() -> None:
    client: Any = Slow()
    rights, names = Rights(client), [*["greedy"] * 300, "other"]
    people = [User(UserInfo(name), str(at).encode()) for at, name in enumerate(names)]
    assert await count_refused(rights.may(one, "list", "nodes") for one in people) == 300 - 64
