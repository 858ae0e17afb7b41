"""The stub of ``nvidia-ctk``: describes the cards of the state that GPULOOM_STUB_DRIVER names, for containers (CDI).

A container with a card has the stub's libraries from LD_LIBRARY_PATH, the state, and a device file like the card's.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

STATE = Path(os.environ["GPULOOM_STUB_DRIVER"])
LIBRARIES = os.environ["LD_LIBRARY_PATH"]
MACHINE_PROC = "/run/machine/proc"


def main(arguments: list[str]) -> int:
    if arguments[:2] != ["cdi", "generate"]:
        return 2
    flags = dict(word.removeprefix("--").split("=", 1) for word in arguments[2:])
    Path(flags["output"]).write_text(json.dumps(_describe(f"{flags['vendor']}/{flags['class']}")))
    return 0


def _describe(kind: str) -> dict[str, Any]:
    cards = json.loads(STATE.read_text())["cards"]
    variables = {"GPULOOM_STUB_DRIVER": STATE, "LD_LIBRARY_PATH": LIBRARIES, "STUB_HOST_PROC": MACHINE_PROC}
    mounts = [(LIBRARIES, LIBRARIES, "ro"), (STATE.parent, STATE.parent, "rw"), ("/proc", MACHINE_PROC, "ro")]
    return {
        "cdiVersion": "0.5.0",
        "kind": kind,
        "devices": [{"name": card["uuid"], "containerEdits": _show(card)} for card in cards],
        "containerEdits": {
            "env": [f"{name}={value}" for name, value in variables.items()],
            "mounts": [
                {"hostPath": str(here), "containerPath": str(there), "options": ["rbind", mode]}
                for here, there, mode in mounts
            ],
        },
    }


def _show(card: dict[str, Any]) -> dict[str, Any]:
    return {
        "env": [f"CUDA_VISIBLE_DEVICES={card['uuid']}"],
        "deviceNodes": [{"path": f"/dev/nvidia{card['minor']}", "hostPath": "/dev/null"}],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
