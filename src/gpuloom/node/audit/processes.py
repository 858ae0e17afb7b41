"""Which pod a process belongs to: its control group says it, whose name containers cannot change."""

import re
from collections.abc import Iterable
from pathlib import Path

from gpuloom.node.audit.truths import Occupant
from gpuloom.node.monitor.cards import CardUse

# The systemd driver writes underscores for hyphens; a static pod's UID is one long number.
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})", re.ASCII)


def read_pod_uid(proc_dir: Path, pid: int) -> str:
    """Return the UID of the pod that a process runs in, empty for a process of no pod.

    Raises OSError for a process that is gone, or of another PID namespace.
    """
    match = _POD.search((proc_dir / str(pid) / "cgroup").read_text(errors="replace"))
    return match[1].replace("_", "-") if match else ""


def find_occupants(cards: Iterable[CardUse], proc_dir: Path) -> tuple[tuple[Occupant, ...], int]:
    """Return who computes on cards, and how many processes have no owner because they are gone."""
    occupants, gone = [], 0
    for card in cards:
        for process in card.processes:
            try:
                uid = read_pod_uid(proc_dir, process.pid)
            except OSError:
                gone += 1
            else:
                occupants.append(Occupant(card.uuid, process.pid, process.memory_bytes, uid))
    return tuple(occupants), gone
