"""Which callers share one limit: all service accounts of a namespace, of which anybody there may make any number."""

from collections import Counter
from collections.abc import Iterable

_SERVICE_ACCOUNT = "system:serviceaccount:"


def crowd_of(username: str) -> str:
    """Return a person's name, of a service account its namespace's."""
    return username.rpartition(":")[0] if username.startswith(_SERVICE_ACCOUNT) else username


def find_greedy(users: Iterable[str], newcomer: str) -> str | None:
    """Return the crowd that has most places and gives one to a newcomer, None where his own would have as many then."""
    taken = Counter(map(crowd_of, users))
    greedy, places = taken.most_common(1)[0]
    return greedy if places > taken[crowd_of(newcomer)] + 1 else None
