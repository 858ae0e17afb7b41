"""Reads the pods that are to be expected from a file, YAML or JSON: a list, an entry for each shape."""

from pathlib import Path

import msgspec

from gpuloom.engine.scoring.fragmentation.pod_mix import PodMix
from gpuloom.scheduler.outlook.lines import ExpectedPods, read_mix

MOST_BYTES = 1 << 20


class WorkloadError(ValueError):
    """The file cannot be used; the message names it."""


def read_workload(file: Path) -> PodMix:
    """Read the pods to come.

    Raises WorkloadError.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise WorkloadError(f"--workload-file {file}: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise WorkloadError(f"--workload-file {file}: larger than {MOST_BYTES} bytes")
    try:
        return read_mix(msgspec.yaml.decode(text, type=list[ExpectedPods]))
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise WorkloadError(f"--workload-file {file}: {error}") from error
