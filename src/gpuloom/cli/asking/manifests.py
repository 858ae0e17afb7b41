"""Manifests as people write them: which pods would come of them."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.wire.device_config import YAML_FAILURES
from gpuloom.wire.yamldepth import refuse_deep

MOST_BYTES = 4 * 2**20
_MAKERS = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "ReplicationController"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pod in JSON, and how many of it its manifest asks for.

    name               ``Kind/name``
    namespaces_beside  those that the same file makes
    """

    name: str
    namespace: str
    manifest: bytes
    replicas: int
    namespaces_beside: frozenset[str] = frozenset()


def read_manifests(filename: str) -> list[Wanted]:
    """Read a file, ``-`` for standard input.

    Raises CommandError that names the file and the place.
    """
    text = _read(filename)
    try:
        refuse_deep(text)
        # The loader in C: Python's takes seconds for a few kilobytes of brackets.
        documents = [one for one in yaml.load_all(text, Loader=yaml.CSafeLoader) if one is not None]
        items = [item for document in documents for item in _unfold(document)]
        beside = frozenset(map(_read_namespace, items))
        wanted = [replace(one, namespaces_beside=beside) for item in items if (one := _read_item(filename, item))]
        kinds = ", ".join(str(item.get("kind", "?")) for item in items if isinstance(item, dict)) or "nothing"
    except (yaml.YAMLError, *YAML_FAILURES) as error:
        raise CommandError(f"{filename}: {_locate(error)}; correct it", ExitCode.USAGE) from error
    if not wanted:
        raise CommandError(f"{filename} makes no pod (it holds {kinds}): give a Pod or what makes one", ExitCode.USAGE)
    return wanted


def _read(filename: str) -> bytes:
    try:
        if filename == "-":
            text = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(filename).open("rb") as file:
                text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{filename}: {error.strerror}", ExitCode.USAGE) from error
    if len(text) > MOST_BYTES:
        size = f"larger than {MOST_BYTES // 2**20} MiB"
        raise CommandError(f"{filename}: {size}: give the pod's manifest", ExitCode.USAGE)
    return text


def _locate(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    text = " ".join(str(problem).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {text}" if mark is not None else text


def _unfold(document: Any) -> Iterator[Any]:
    """Give the objects of a document: those of a list, as List or PodList, or itself."""
    kind = str(document.get("kind", "")) if isinstance(document, dict) else ""
    if not kind.endswith("List"):
        yield document
        return
    items = document.get("items") or []
    if not isinstance(items, list):
        raise yaml.YAMLError(f"the items of a {kind} are no list")
    # In a list of one kind the items need not say theirs.
    own = {"kind": kind.removesuffix("List")} if kind != "List" else {}
    yield from ({**own, **item} if isinstance(item, dict) else item for item in items)


def _read_item(filename: str, item: Any) -> Wanted | None:
    if not isinstance(item, dict):
        raise CommandError(f"{filename}: {str(item)[:40]!r} is no manifest: it has no kind", ExitCode.USAGE)
    kind, metadata, spec = str(item.get("kind", "")), _dict(item, "metadata"), _dict(item, "spec")
    if not kind:
        raise CommandError(f"{filename}: a manifest without kind", ExitCode.USAGE)
    if kind == "Pod":
        pod, replicas = item, 1
    elif kind in _MAKERS:
        pod, replicas = _dict(spec, "template"), _count_of(kind, spec)
    elif kind == "CronJob":
        job = _dict(_dict(spec, "jobTemplate"), "spec")
        pod, replicas = _dict(job, "template"), _count_of("Job", job)
    else:
        return None
    name = metadata.get("name") or metadata.get("generateName") or "unnamed"
    named = {**_dict(pod, "metadata"), "name": str(name)}
    manifest = {"kind": "Pod", "metadata": named, "spec": _dict(pod, "spec")}
    namespace = str(metadata.get("namespace") or "")
    try:
        encoded = msgspec.json.encode(manifest)
    except (TypeError, ValueError, RecursionError) as error:
        raise CommandError(f"{filename}: {kind}/{name} cannot be written as JSON: {error}", ExitCode.USAGE) from error
    return Wanted(f"{kind}/{name}", namespace, encoded, replicas)


def _read_namespace(item: Any) -> str:
    """Return the name of a namespace that an object is, nothing for any other."""
    is_one = isinstance(item, dict) and item.get("kind") == "Namespace"
    return str(_dict(item, "metadata").get("name", "")) if is_one else ""


def _dict(item: dict[str, Any], key: str) -> dict[str, Any]:
    value = item.get(key)
    return value if isinstance(value, dict) else {}


def _count_of(kind: str, spec: dict[str, Any]) -> int:
    """Return how many pods run at once: of a job never more than have yet to succeed."""
    if kind != "Job":
        return _read_count(spec, "replicas", 1)
    at_once = _read_count(spec, "parallelism", 1)
    return min(at_once, _read_count(spec, "completions", at_once))


def _read_count(spec: dict[str, Any], key: str, default: int) -> int:
    count = spec.get(key)
    return count if isinstance(count, int) and count > 0 else default
