"""How each command's help ends: with an example, as somebody would type it, and the exit codes."""

from collections.abc import Mapping
from typing import Final

EXIT_CODES: Final = "Exit codes: 0 yes, 1 no, 2 wrong usage, 3 cannot be told, because nobody could be asked."

EXAMPLES: Final[Mapping[str, str]] = {
    "top": "gpuloom top nodes --sort-by .memory.used",
    "nodes": "gpuloom nodes -l disk=ssd -o wide",
    "cards": "gpuloom cards --state idle --model A100",
    "pods": "gpuloom pods --all-namespaces --watch",
    "pending": "gpuloom pending -A",
    "quota": "gpuloom quota -n team-a",
    "workload": "gpuloom workload -o json",
    "explain": "gpuloom explain team-a/notebook -v",
    "fits": "gpuloom fits -f pod.yaml",
    "preempt": "gpuloom preempt team-a/notebook --dry-run",
    "defrag": "gpuloom defrag --for pod.yaml",
    "cordon": "gpuloom cordon GPU-52c02cec",
    "uncordon": "gpuloom uncordon GPU-52c02cec",
    "drain-card": "gpuloom drain-card GPU-52c02cec --dry-run",
    "scheduler": "gpuloom scheduler --http_bind 127.0.0.1:8080 --scheduler-name hami-scheduler",
    "device-plugin": "gpuloom device-plugin --node-name n1 --cards two-t4",
    "monitor": "gpuloom monitor --node-name n1 --hook-path /usr/local/vgpu",
    "doctor": "gpuloom doctor --cluster",
    "selftest": "gpuloom selftest --output json",
    "vendors": "gpuloom vendors --all",
    "snapshot": "gpuloom snapshot > cluster.jsonl",
    "replay": "gpuloom replay --check cluster.jsonl",
    "simulate": "gpuloom simulate --nodes nodes.yaml --pods pods.yaml --policy binpack,FGD",
    "demo": "gpuloom demo --once",
    "bench": "gpuloom bench calls",
    "completion": "gpuloom completion bash",
    "version": "gpuloom version -o json",
}


def write_epilogue(command: str) -> str:
    """Return the end of a command's help; a test holds that every command has an example."""
    return f"Example: `{EXAMPLES[command]}`\n\n{EXIT_CODES}" if command in EXAMPLES else EXIT_CODES
