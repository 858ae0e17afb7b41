"""What ``nvidia-smi`` tells, to hold gpuloom's reading against; none of it goes through gpuloom's own reading."""

import asyncio
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from gpuloom.local.selftest.report import SkipStepError, StepFailedError

_ANSWER_S = 60.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CARD_OF_LINKS = re.compile(r"^GPU \d+: .*\(UUID: ([^)]+)\)")
_ACTIVE_LINK = re.compile(r"^\s*Link \d+: [\d.]+ GB/s")


@dataclass(frozen=True, slots=True)
class SmiCard:
    """A card; ``memory_mib`` is None where it cannot tell, ``numa`` where the machine has no such nodes."""

    uuid: str
    index: int
    name: str
    memory_mib: int | None
    pci_bus_id: str
    numa: int | None
    links: int


async def read_cards() -> tuple[SmiCard, ...]:
    """Return the cards in the order of their indexes.

    Raises SkipStepError without the program, and StepFailedError when it fails.
    """
    rows = await _query("--query-gpu=uuid,index,name,memory.total,pci.bus_id")
    links = parse_links(await _run("nvlink", "--status", may_fail=True))
    numa = parse_numa(await _run("topo", "-m", may_fail=True))
    return tuple(
        SmiCard(
            uuid,
            int(index),
            name,
            int(memory) if memory.isdecimal() else None,
            bus_id,
            numa.get(int(index)),
            links.get(uuid, 0),
        )
        for uuid, index, name, memory, bus_id in rows
    )


async def read_processes() -> dict[int, tuple[str, int | None]]:
    """Return the programs that compute, by number of process: the card's UUID, and the MiB that it holds of it.

    Raises as :func:`read_cards`.
    """
    rows = await _query("--query-compute-apps=pid,gpu_uuid,used_memory")
    return {int(pid): (uuid, int(mib) if mib.isdecimal() else None) for pid, uuid, mib in rows}


def parse_links(text: str) -> dict[str, int]:
    """Count the active links by UUID in what ``nvidia-smi nvlink --status`` prints."""
    links: dict[str, int] = {}
    uuid = ""
    for line in text.splitlines():
        if card := _CARD_OF_LINKS.match(line):
            uuid = card[1]
        elif uuid and _ACTIVE_LINK.match(line):
            links[uuid] = links.get(uuid, 0) + 1
    return links


def parse_numa(text: str) -> dict[int, int]:
    """Return the NUMA node by index from the table that ``nvidia-smi topo -m`` prints, of those cards that have one."""
    lines = [_COLOURS.sub("", line).split("\t") for line in text.splitlines()]
    nodes: dict[int, int] = {}
    if not lines:
        return nodes
    headings = [cell.strip() for cell in lines[0]]
    if "NUMA Affinity" not in headings:
        return nodes
    place = headings.index("NUMA Affinity")
    for cells in lines[1:]:
        found = re.fullmatch(r"GPU(\d+)", cells[0].strip())
        if found and len(cells) > place and cells[place].strip().isdecimal():
            nodes[int(found[1])] = int(cells[place])
    return nodes


async def _query(question: str) -> Sequence[Sequence[str]]:
    text = await _run(question, "--format=csv,noheader,nounits")
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]


async def _run(*arguments: str, may_fail: bool = False) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        raise SkipStepError("nvidia-smi is not in the PATH")
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(_ANSWER_S):
            output, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise StepFailedError(f"nvidia-smi {' '.join(arguments)} did not answer within {_ANSWER_S:g} s") from error
    text = output.decode(errors="replace")
    if process.returncode and not may_fail:
        told = " ".join(text.split())[:300]
        raise StepFailedError(f"nvidia-smi {' '.join(arguments)} ended with {process.returncode}: {told}")
    return "" if process.returncode else text
