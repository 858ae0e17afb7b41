"""Oracle and engine side by side: the same recording through both, the first difference as a readable text.

Run by hand for any seeds: ``python -m oracle.agreement 0 20000``.
"""

import asyncio
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line
from oracle.cases import case_from_seed
from oracle.replay import Replay
from oracle.reviews import apply_patch
from oracle.webhook import ANY_TEXT

NANOSECONDS = re.compile(r"(?<=\d{10})\d{9}$")
"""What no two decisions of a second have in common."""


class Oracle(Protocol):
    """Whoever takes the lines of a recording and answers them."""

    def take(self, line: Any) -> Any:
        """Take an input line and return its answer line, if it has one."""
        ...


def find_difference(lines: Sequence[Mapping[str, Any]], oracle: Oracle) -> str:
    """Return what oracle and engine answer differently first, with the recording up to there; empty if they agree."""
    return asyncio.run(_find_difference(lines, oracle))


async def _find_difference(lines: Sequence[Mapping[str, Any]], oracle: Oracle) -> str:
    player = Player()
    for number, line in enumerate(lines, 1):
        text = json.dumps(line)
        expected = oracle.take(json.loads(text))
        answer = await player.play(decode_line(text.encode()))
        if "id" not in line:
            continue
        wanted, got = _normalize(expected, line), _normalize(json.loads(msgspec.json.encode(answer)), line)
        _forgive_text(wanted, got)
        if wanted != got:
            recording = "\n".join(json.dumps(shown) for shown in lines[:number])
            where = "\n".join(_where(wanted, got))
            return f"recording:\n{recording}\noracle: {json.dumps(wanted)}\nengine: {json.dumps(got)}\n{where}"
    return ""


def _normalize(answer: Any, line: Mapping[str, Any]) -> Any:
    """Bring an answer into the form in which only its meaning is compared."""
    answer = json.loads(json.dumps(answer))
    if answer["type"] == "REVIEWED":
        response = answer["response"].get("response", answer["response"])
        pod = answer.get("result_pod")
        if response["allowed"] and pod is None:
            pod = apply_patch(line["review"]["request"]["object"], response.get("patch") or [])
        status = {key: value for key, value in response["status"].items() if value is not None}
        return {"allowed": response["allowed"], "status": status, "pod": pod and _with_text_quantities(pod)}
    if answer["type"] == "FILTERED":
        annotations = ((answer["patch"] or {}).get("metadata") or {}).get("annotations") or {}
        for key in [key for key, value in annotations.items() if value is None]:
            del annotations[key]  # on a pod that does not have it, null is the same as nothing
        for key, value in annotations.items():
            annotations[key] = json.loads(value) if value[:1] in {"[", "{"} else NANOSECONDS.sub("", value)
        if answer["result"]["Nodes"] is not None:
            answer["result"]["Nodes"] = answer["result"]["Nodes"]["items"]
    if answer["type"] == "RECONCILED":
        return _by_node(answer["patches"])
    return answer


def _by_node(patches: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Put together what several vendors patch on a node."""
    merged: dict[str, dict[str, Any]] = {}
    for patch in patches:
        merged.setdefault(patch["name"], {}).update(patch["patch"]["metadata"]["annotations"])
    return merged


def _with_text_quantities(pod: Any) -> Any:
    for group in ("containers", "initContainers"):
        for container in pod["spec"].get(group) or []:
            resources = container.get("resources") or {}
            for kind in [kind for kind in ("limits", "requests") if resources.get(kind)]:
                resources[kind] = {name: str(value) for name, value in resources[kind].items()}
    return pod


def _forgive_text(wanted: Any, got: Any) -> None:
    """Let the engine say what it likes where no specification gives the words."""
    if "status" in wanted and wanted["status"].get("message") == ANY_TEXT and got["status"].get("message"):
        got["status"]["message"] = ANY_TEXT


def _where(wanted: Any, got: Any, path: str = "") -> Iterator[str]:
    """Tell where two answers differ."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in sorted({*wanted, *got}):
            yield from _where(wanted.get(key), got.get(key), f"{path}/{key}")
    elif wanted != got:
        yield f"differ at {path}: oracle {json.dumps(wanted)}, engine {json.dumps(got)}"


def main(first: int, last: int) -> int:
    """Compare the cases of some seeds; print those that differ."""
    differing = 0
    for seed in range(first, last):
        if difference := find_difference(case_from_seed(seed).lines, Replay()):
            differing += 1
            print(f"seed {seed}: {difference}")
    print(f"{last - first} cases, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
