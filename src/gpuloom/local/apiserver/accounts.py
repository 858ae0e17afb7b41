"""Who may come in and what they may do: one administrator, and whoever a test adds with the rights it names.

Answers TokenReview and SubjectAccessReview as kube-apiserver does; rights are a plain function, not RBAC objects.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpuloom.local.apiserver.objects import Json
from gpuloom.local.apiserver.requests import Target
from gpuloom.local.apiserver.statuses import ApiStatusError

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

Right = Callable[[str, str, str], bool]
"""Tells of a verb, a resource (``pods``, ``pods/binding``) and a namespace, empty for all, whether it is allowed."""


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody with a token; with an ``audience`` the API server itself does not take it."""

    name: str
    groups: tuple[str, ...]
    allows: Right
    audience: str = ""


@dataclass(slots=True)
class Accounts:
    """Accounts by their tokens; ``admin`` is the token of the one that may do everything."""

    admin: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _by_token: dict[str, Account] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_token[self.admin] = Account("admin", ("system:masters",), lambda *_: True)

    def add(self, name: str, allows: Right, groups: tuple[str, ...] = (), audience: str = "") -> str:
        """Add an account and return its token."""
        token = secrets.token_urlsafe(24)
        self._by_token[token] = Account(name, groups, allows, audience)
        return token

    def remove(self, token: str) -> None:
        """Make a token worthless."""
        self._by_token.pop(token, None)

    def find(self, authorization: str, audiences: tuple[str, ...] = ("",)) -> Account | None:
        """Return whose the bearer token of a header is, if it is for one of the audiences."""
        given = authorization.encode()
        matches = [
            account
            for token, account in self._by_token.items()
            if secrets.compare_digest(given, f"Bearer {token}".encode()) and account.audience in audiences
        ]
        return matches[0] if matches else None

    def answer(self, path: str, review: Json) -> Json | None:
        """Answer a review, None when the path is none of a review."""
        spec: Json = review.get("spec") or {}
        if path == TOKEN_REVIEWS:
            return {**review, "status": self._review_token(str(spec.get("token", "")), spec.get("audiences") or [""])}
        if path == ACCESS_REVIEWS:
            return {**review, "status": {"allowed": self._review_access(spec)}}
        return None

    def _review_token(self, token: str, audiences: list[str]) -> Json:
        account = self.find(f"Bearer {token}", tuple(audiences))
        if account is None:
            return {"user": {}, "error": "[invalid bearer token]"}
        groups = [*account.groups, "system:authenticated"]
        return {
            "authenticated": True,
            "audiences": [account.audience],
            "user": {"username": account.name, "uid": f"uid-{account.name}", "groups": groups},
        }

    def _review_access(self, spec: Json) -> bool:
        account = next((one for one in self._by_token.values() if one.name == spec.get("user")), None)
        asked: dict[str, Any] = spec.get("resourceAttributes") or {}
        path: dict[str, Any] = spec.get("nonResourceAttributes") or {}
        if account is None:
            return False
        if path:
            return account.allows(path.get("verb", ""), path.get("path", ""), "")
        resource = "/".join(part for part in (asked.get("resource", ""), asked.get("subresource", "")) if part)
        return account.allows(asked.get("verb", ""), resource, asked.get("namespace", ""))


def check_right(account: Account, method: str, target: Target, *, is_watch: bool) -> None:
    """Refuse what an account may not do; raises ApiStatusError (403)."""
    if method == "GET":
        verb = "get" if target.name else "watch" if is_watch else "list"
    else:
        verb = _VERBS.get(method, method.lower())
    kind = target.kind
    resource = f"{kind.plural}/{target.subresource}" if target.subresource else kind.plural
    if account.allows(verb, resource, target.namespace):
        return
    scope = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    name = f' "{target.name}"' if target.name else ""
    raise ApiStatusError(
        403,
        "Forbidden",
        f'{kind.qualified}{name} is forbidden: User "{account.name}" cannot {verb} resource "{resource}" '
        f'in API group "{kind.group}" {scope}',
    )
