"""People who are signed in (binding 6).

A token is kept only as a ciphertext whose key is the cookie: while its owner does not ask, nobody here can read it.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.fernet import Fernet

from gpuloom.serving.crowds import crowd_of, find_greedy
from gpuloom.serving.rights import SignInError

LONGEST_S = 12 * 3600.0
IDLE_S = 3600.0
MOST_SESSIONS = 512
MOST_OF_ONE = 16


class TooManySessionsError(Exception):
    """There are too many sessions; the message says what to do."""


@dataclass(slots=True)
class _Session:
    user: str
    sealed: bytes
    opened: float
    used: float


@dataclass(slots=True)
class Sessions:
    """Sessions by the digest of their cookie, oldest first; their number is bounded, and each of them ends."""

    clock: Callable[[], float] = time.monotonic
    _known: dict[bytes, _Session] = field(default_factory=dict)

    def open(self, token: str, user: str) -> str:
        """Begin a session and return its cookie. Of one person the oldest session makes way for the newest.

        Where all places are taken, so does the oldest of those who have most: a person, or the service accounts of
        a namespace.

        Raises TooManySessionsError.
        """
        now = self.clock()
        for key in [key for key, one in self._known.items() if self._is_over(one, now)]:
            del self._known[key]
        own = [key for key, one in self._known.items() if one.user == user]
        if len(own) >= MOST_OF_ONE:
            del self._known[own[0]]
        if len(self._known) >= MOST_SESSIONS and not self._make_room(user):
            raise TooManySessionsError(f"{MOST_SESSIONS} people are signed in, which is the limit: try again later")
        cookie = secrets.token_urlsafe(32)
        self._known[_digest(cookie)] = _Session(user, _cipher(cookie).encrypt(token.encode()), now, now)
        return cookie

    def _make_room(self, newcomer: str) -> bool:
        greedy = find_greedy((one.user for one in self._known.values()), newcomer)
        oldest = next((key for key, one in self._known.items() if crowd_of(one.user) == greedy), None)
        if oldest is None:
            return False
        del self._known[oldest]
        return True

    def read(self, cookie: str) -> str:
        """Return the token of a session and note that it is used.

        Raises SignInError when there is none, or it has ended.
        """
        session, now = self._known.get(_digest(cookie)), self.clock()
        if session is None or self._is_over(session, now):
            raise SignInError("not signed in, or the session has ended: sign in again")
        session.used = now
        return _cipher(cookie).decrypt(session.sealed).decode()

    def close(self, cookie: str) -> None:
        """End a session, if there is one."""
        self._known.pop(_digest(cookie), None)

    def _is_over(self, session: _Session, now: float) -> bool:
        return now - session.opened >= LONGEST_S or now - session.used >= IDLE_S


def _digest(cookie: str) -> bytes:
    # aiohttp hands on bytes that are no UTF-8 as surrogates.
    return hashlib.sha256(cookie.encode(errors="surrogateescape")).digest()


def _cipher(cookie: str) -> Fernet:
    return Fernet(cookie + "=")
