"""Oracle and engine side by side: the same recording through both, the first difference as a readable text.

Run by hand for any seeds: ``python -m oracle.agreement 0 20000``.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from gpuloom.scheduler.recording import Player
from gpuloom.scheduler.recording.lines import decode_line
from oracle.cases import Case, case_from_seed
from oracle.replay import Replay
from oracle.reviews import apply_patch


def find_difference(case: Case) -> str:
    """Return what the two answer differently first, with the recording up to there; empty if they agree."""
    return asyncio.run(_find_difference(case))


async def _find_difference(case: Case) -> str:
    oracle, player = Replay(), Player()
    for number, line in enumerate(case.lines, 1):
        text = json.dumps(line)
        expected = oracle.take(json.loads(text))
        answer = await player.play(decode_line(text.encode()))
        if "id" not in line:
            continue
        wanted, got = _normalize(expected, line), _normalize(json.loads(msgspec.json.encode(answer)), line)
        if wanted != got:
            recording = "\n".join(json.dumps(shown) for shown in case.lines[:number])
            return f"recording:\n{recording}\noracle: {json.dumps(wanted)}\nengine: {json.dumps(got)}"
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
        if answer["result"]["Nodes"] is not None:
            answer["result"]["Nodes"] = answer["result"]["Nodes"]["items"]
    return answer


def _with_text_quantities(pod: Any) -> Any:
    for group in ("containers", "initContainers"):
        for container in pod["spec"].get(group) or []:
            limits = (container.get("resources") or {}).get("limits")
            if limits:
                container["resources"]["limits"] = {name: str(value) for name, value in limits.items()}
    return pod


def main(first: int, last: int) -> int:
    """Compare the cases of some seeds; print those that differ."""
    differing = 0
    for seed in range(first, last):
        if difference := find_difference(case_from_seed(seed)):
            differing += 1
            print(f"seed {seed}: {difference}")
    print(f"{last - first} cases, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
