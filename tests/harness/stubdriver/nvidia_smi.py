"""The stub of ``nvidia-smi``: tells the cards of the state that GPULOOM_STUB_DRIVER names, in that program's forms."""

import json
import os
import sys
from pathlib import Path
from typing import Any

STATE = Path(os.environ["GPULOOM_STUB_DRIVER"])


def main(arguments: list[str]) -> int:
    cards = json.loads(STATE.read_text())["cards"]
    match arguments:
        case [question, _] if question.startswith("--query-gpu="):
            for index, card in enumerate(cards):
                memory = card.get("memory_bytes", 0) // 2**20 or "[N/A]"
                print(f"{card['uuid']}, {index}, {card['name']}, {memory}, {card['pci_bus_id']}")
        case [question, _] if question.startswith("--query-compute-apps="):
            _tell_processes()
        case ["nvlink", "--status"]:
            for index, card in enumerate(cards):
                print(f"GPU {index}: {card['name']} (UUID: {card['uuid']})")
                for number, link in enumerate(card.get("links", [])):
                    print(f"\t Link {number}: {'25.781 GB/s' if link['state'] else '<inactive>'}")
        case ["topo", "-m"]:
            names = "\t".join(f"GPU{index}" for index in range(len(cards)))
            print(f"\t\x1b[4m{names}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m")
            for index in range(len(cards)):
                print("\t".join([f"GPU{index}", *_tell_ways(cards, index), "0-3", "N/A", "N/A"]))
        case _:
            return 2
    return 0


def _tell_processes() -> None:
    for path in sorted(Path(f"{STATE}.processes").glob("*")):
        pid, _, uuid = path.name.partition(".")
        if Path(f"/proc/{pid}").exists():
            print(f"{pid}, {uuid}, {int(path.read_text()) // 2**20}")


def _tell_ways(cards: list[dict[str, Any]], index: int) -> list[str]:
    return [" X " if other == index else "SYS" for other in range(len(cards))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
