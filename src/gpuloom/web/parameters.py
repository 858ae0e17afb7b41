"""The parameters of a request, behind the question mark and in the path."""

from collections.abc import Collection

from aiohttp import web

from gpuloom.engine.explanation.depth import STANDARD, Depth
from gpuloom.web.operations import REPEATABLE
from gpuloom.web.refusals import RefusedError

_MOST_ITEMS = 100_000
LONGEST_SHOWN = 200
"""Of what somebody wrote, in an answer that says what is wrong with it."""


def check_parameters(request: web.Request, path: str, taken: Collection[str]) -> None:
    """Refuse what the path does not take: whoever mistyped it would be told of other things than asked for."""
    for name in request.query:
        if name not in taken:
            takes = ", ".join(taken) or "none"
            raise RefusedError(400, f"{name[:LONGEST_SHOWN]}: there is no such parameter of {path}; it takes {takes}")
        if name not in REPEATABLE and len(request.query.getall(name)) > 1:
            raise RefusedError(400, f"{name}: may be given once")


def read_depth(request: web.Request) -> Depth:
    """Read how much of an explanation is wanted: ``node`` (several), ``nodes`` (how many), ``names``."""
    named = frozenset(request.query.getall("node", ()))
    return Depth(
        nodes=named,
        most_nodes=_read_number(request, "nodes", STANDARD.most_nodes),
        most_names=_read_number(request, "names", STANDARD.most_names),
    )


def read_pod_name(request: web.Request) -> tuple[str, str] | None:
    """Read ``pod``, the namespace and name of one; None where none is named."""
    text = request.query.get("pod", "")
    namespace, _, name = text.partition("/")
    if text and not (namespace and name):
        raise RefusedError(400, f"pod={text[:LONGEST_SHOWN]}: must be NAMESPACE/NAME")
    return (namespace, name) if text else None


def read_limit(request: web.Request) -> int:
    """Read how many items of a list are wanted."""
    return _read_number(request, "limit", _MOST_ITEMS)


def _read_number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise RefusedError(400, f"{name}={text[:LONGEST_SHOWN]}: must be a whole number of 0 or more")
    digits = text.lstrip("0") or "0"
    return min(int(digits), _MOST_ITEMS) if len(digits) <= len(str(_MOST_ITEMS)) else _MOST_ITEMS


def named_namespaces(request: web.Request) -> set[str]:
    """Return the namespaces that a request names."""
    named = (request.query.get("namespace", ""), request.match_info.get("namespace", ""))
    pod = request.query.get("pod", "").partition("/")[0]
    default = "default" if request.path.endswith("/fits") else ""
    return {name for name in (*named, pod, default) if name}
