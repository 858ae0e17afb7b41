"""Who asks, and what they may do: the API server decides, and its answers are kept for seconds (binding 6).

Tokens are never kept: answers are kept under their digest. Every memory is bounded.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from gpuloom.kube import ApiError, KubeClient
from gpuloom.serving.crowds import crowd_of
from gpuloom.serving.reviews import ACCESS_REVIEWS, TOKEN_REVIEWS, UserInfo
from gpuloom.serving.turns import CrowdedError, TurnLimits, Turns

REMEMBERED_S = 10.0
MOST_REMEMBERED = 4096
LONGEST_TOKEN = 16_384
_LIMITS = TurnLimits(at_once=16, most=256, most_of_one=64)
"""One asker is an address, as long as it is not known whose token it is, and then a person."""
_NO_ONE = "no bearer token: sign in with a token that the API server knows (kubectl create token)"

_T = TypeVar("_T")


class SignInError(Exception):
    """This token belongs to nobody; the message says what to do."""


class RightsError(Exception):
    """The API server could not be asked; the message says how it failed."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody whom the API server knows; ``key`` stands for name, groups and whatever else rights depend on."""

    info: UserInfo
    key: bytes

    @property
    def name(self) -> str:
        """The name that the API server gives."""
        return self.info.username


@dataclass(slots=True)
class _Memory(Generic[_T]):
    """Keeps answers for seconds and forgets the oldest first; equal questions at the same time are asked once."""

    clock: Callable[[], float]
    _known: OrderedDict[bytes, tuple[float, asyncio.Future[_T]]] = field(default_factory=OrderedDict)

    async def recall(self, key: bytes, ask: Callable[[], Awaitable[_T]]) -> _T:
        known = self._known.get(key)
        if known is None or known[0] <= self.clock():
            task: asyncio.Future[_T] = asyncio.ensure_future(ask())
            self._known[key] = (self.clock() + REMEMBERED_S, task)
            self._known.move_to_end(key)
            while len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        else:
            task = known[1]
        try:
            # The first caller may go away; the answer is for all who wait for it.
            return await asyncio.shield(task)
        except (ApiError, RightsError, SignInError):
            self._known.pop(key, None)
            raise


class Rights:
    """Asks the API server about people, a limited number at a time; refuses those beyond limits of waiting ones.

    With an ``audience`` only tokens that were made for it count; otherwise those for the API server.
    """

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic, *, audience: str = "") -> None:
        self._client = client
        self._audience = audience
        self._users: _Memory[User] = _Memory(clock)
        self._answers: _Memory[bool] = _Memory(clock)
        self._turns = Turns(_LIMITS)

    async def recognise(self, token: str, peer: str) -> User:
        """Return whose token this is that somebody sent from an address.

        Raises SignInError when it is nobody's, RightsError when the API server cannot be asked.
        """
        if not token or len(token) > LONGEST_TOKEN or not token.isascii():
            raise SignInError(_NO_ONE)
        digest = hashlib.sha256(token.encode()).digest()
        try:
            return await self._users.recall(digest, lambda: self._review(token, peer))
        except ApiError as error:
            raise RightsError(f"the API server cannot be asked whose token this is: {error}") from error

    async def may(self, user: User, verb: str, resource: str, namespace: str = "") -> bool:
        """Tell whether somebody may do something with a kind of object, everywhere or in a namespace.

        Raises RightsError when the API server cannot be asked.
        """
        attributes = {"verb": verb, "resource": resource} | ({"namespace": namespace} if namespace else {})
        return await self._recall(user, {"resourceAttributes": attributes})

    async def may_get(self, user: User, path: str) -> bool:
        """Tell whether somebody may get a path of no object, such as ``/metrics``.

        Raises RightsError when the API server cannot be asked.
        """
        return await self._recall(user, {"nonResourceAttributes": {"path": path, "verb": "get"}})

    async def _recall(self, user: User, question: Mapping[str, Mapping[str, str]]) -> bool:
        key = hashlib.sha256(user.key + msgspec.json.encode(question)).digest()
        try:
            return await self._answers.recall(key, lambda: self._ask(user, question))
        except ApiError as error:
            raise RightsError(f"the API server cannot be asked for rights: {error}") from error

    async def _review(self, token: str, peer: str) -> User:
        wanted = {"audiences": [self._audience]} if self._audience else {}
        spec = {"spec": {"token": token, **wanted}}
        answer = await self._in_turn(f"address {peer}", lambda: self._client.create(TOKEN_REVIEWS, spec))
        # An API server that knows nothing of audiences names none.
        is_for_us = not self._audience or self._audience in (answer.status.audiences or [])
        if not answer.status.authenticated or not is_for_us:
            raise SignInError("the API server does not know this token, or it has expired: get a new one")
        info = answer.status.user
        return User(info, hashlib.sha256(msgspec.json.encode(info)).digest())

    async def _ask(self, user: User, question: Mapping[str, Mapping[str, str]]) -> bool:
        info = user.info
        who = {"user": info.username, "uid": info.uid, "groups": info.groups or [], "extra": info.extra or {}}
        spec = {"spec": {**who, **question}}
        # By name: every token of one person may be a user of its own.
        answer = await self._in_turn(
            f"user {crowd_of(info.username)}", lambda: self._client.create(ACCESS_REVIEWS, spec)
        )
        return answer.status.allowed

    async def _in_turn(self, asker: str, ask: Callable[[], Awaitable[_T]]) -> _T:
        try:
            async with self._turns.take(asker):
                return await ask()
        except CrowdedError as error:
            raise RightsError("too many people ask at once: try again in a moment") from error
