"""Questions to the API server about people: what is asked and believed, and how many there may be (trust T-16)."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import msgspec
import pytest

from gpuloom.kube import ApiError
from gpuloom.serving.reviews import TOKEN_REVIEWS, SubjectAccessReview, TokenReview, UserInfo
from gpuloom.serving.rights import LONGEST_TOKEN, REMEMBERED_S, Rights, RightsError, SignInError, User
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


class Knowing:
    """A client whose API server knows whose each token is, and allows what it is told to; ``asked`` are the specs."""

    def __init__(self, *, authenticated: bool = True, audiences: list[str] | None = None, allowed: bool = True) -> None:
        self.about_token: dict[str, Any] = {"authenticated": authenticated, "audiences": audiences}
        self.allowed = allowed
        self.asked: list[Any] = []
        self.failures = 0

    async def create(self, resource: Any, body: Any) -> Any:
        spec = body["spec"]
        self.asked.append(spec)
        if self.failures:
            self.failures -= 1
            raise ApiError("POST", "reviews", 500, "no answer")
        if resource is TOKEN_REVIEWS:
            status = {**self.about_token, "user": {"username": spec["token"], "groups": ["g"]}}
            return msgspec.convert({"metadata": {}, "status": status}, TokenReview)
        return msgspec.convert({"metadata": {}, "status": {"allowed": self.allowed}}, SubjectAccessReview)


SOMEBODY = User(UserInfo("somebody", "u", ["g"], {"k": ["v"]}), b"somebody")


async def test_a_token_is_whose_the_api_server_says() -> None:
    client: Any = Knowing()
    assert (await Rights(client).recognise("t", "10.0.0.1")).name == "t"
    assert client.asked == [{"token": "t"}]


async def test_a_token_that_the_api_server_does_not_know_is_nobodys() -> None:
    client: Any = Knowing(authenticated=False)
    with pytest.raises(SignInError, match="does not know this token"):
        await Rights(client).recognise("t", "10.0.0.1")


@pytest.mark.parametrize(("audiences", "counts"), [(["other", "door"], True), (["other"], False), (None, False)])
async def test_where_an_audience_is_named_only_tokens_for_it_count(
    audiences: list[str] | None, *, counts: bool
) -> None:
    """An API server that knows nothing of audiences names none."""
    client: Any = Knowing(audiences=audiences)
    try:
        await Rights(client, audience="door").recognise("t", "10.0.0.1")
    except SignInError:
        assert not counts
    else:
        assert counts
    assert client.asked == [{"token": "t", "audiences": ["door"]}]


@pytest.mark.parametrize("token", ["", "t" * (LONGEST_TOKEN + 1), "ü"], ids=["none", "too long", "no ASCII"])
async def test_what_can_be_no_token_is_refused_without_a_question(token: str) -> None:
    client: Any = Knowing()
    with pytest.raises(SignInError, match="no bearer token"):
        await Rights(client).recognise(token, "10.0.0.1")
    assert not client.asked


async def test_a_token_of_the_greatest_length_is_asked_about() -> None:
    client: Any = Knowing()
    assert await Rights(client).recognise("t" * LONGEST_TOKEN, "10.0.0.1")


async def test_an_answer_is_kept_for_seconds_and_for_its_question_alone() -> None:
    now = 0.0
    client: Any = Knowing()
    rights = Rights(client, lambda: now)
    for now, asked in ((0.0, 3), (REMEMBERED_S - 0.1, 3), (REMEMBERED_S, 6)):  # noqa: B007 # the clock reads it
        await rights.may(SOMEBODY, "list", "pods", "a")
        await rights.may(SOMEBODY, "list", "pods", "b")
        await rights.may(User(SOMEBODY.info, b"another"), "list", "pods", "a")
        assert len(client.asked) == asked


async def test_of_more_answers_than_are_kept_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuloom.serving.rights.MOST_REMEMBERED", 2)
    client: Any = Knowing()
    rights = Rights(client, lambda: 0.0)
    for namespace, asked in (("a", 1), ("b", 2), ("a", 2), ("c", 3), ("b", 3), ("a", 4)):
        await rights.may(SOMEBODY, "list", "pods", namespace)
        assert len(client.asked) == asked


async def test_whose_a_token_is_stays_open_where_the_api_server_fails() -> None:
    client: Any = Knowing()
    client.failures = 1
    with pytest.raises(RightsError, match="whose token this is"):
        await Rights(client).recognise("t", "10.0.0.1")


async def test_a_failure_is_not_kept() -> None:
    client: Any = Knowing()
    client.failures = 1
    rights = Rights(client, lambda: 0.0)
    with pytest.raises(RightsError, match="cannot be asked"):
        await rights.may(SOMEBODY, "list", "nodes")
    assert await rights.may(SOMEBODY, "list", "nodes")


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_right_is_what_the_api_server_answers_about_this_person(*, allowed: bool) -> None:
    client: Any = Knowing(allowed=allowed)
    rights = Rights(client)
    assert await rights.may(SOMEBODY, "list", "pods", "a") is allowed
    assert await rights.may(SOMEBODY, "list", "nodes") is allowed
    assert await rights.may_get(SOMEBODY, "/metrics") is allowed
    who = {"user": "somebody", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}}
    assert client.asked == [
        {**who, "resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "a"}},
        {**who, "resourceAttributes": {"verb": "list", "resource": "nodes"}},
        {**who, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
    ]


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
