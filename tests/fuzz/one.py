"""Fuzzes one target with atheris until its time is over.

Usage: python -m fuzz.one TARGET FINDINGS AGAIN [flags and corpora of libFuzzer]. AGAIN is a program that starts the
same with other flags: libFuzzer calls it to merge corpora.
"""

import logging
import sys
from pathlib import Path
from random import Random

_INSTRUMENTED = ["gpuloom", "yaml"]


def main(name: str, findings: str, again: str, flags: list[str]) -> None:
    """Fuzz; the process ends in it."""
    import atheris
    import structlog

    with atheris.instrument_imports(include=_INSTRUMENTED):
        from fuzz.catalogue import TARGETS
    from fuzz.findings import Findings
    from fuzz.limits import check
    from fuzz.mutation import LONGEST_BYTES, mutate

    # Lines are written as in a process, and thrown away.
    quiet = structlog.PrintLoggerFactory(Path("/dev/null").open("w", encoding="utf-8"))  # noqa: SIM115 - to the end
    structlog.configure(processors=[structlog.processors.JSONRenderer()], logger_factory=quiet)
    logging.disable()
    target = next(one for one in TARGETS if one.name == name)
    found = Findings(Path(findings))
    seeds = list(target.seeds())

    def read(data: bytes) -> None:
        try:
            check(target, data)
        except Exception as error:  # noqa: BLE001 - each is a finding
            found.note(data, error)

    def change(data: bytes, most: int, seed: int) -> bytes:
        chance = Random(seed)
        if chance.random() < 0.2:
            return bytes(atheris.Mutate(data, most))
        return mutate(target.form, data, chance, seeds)[:most]

    atheris.Setup([again, f"-max_len={LONGEST_BYTES}", *flags], read, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
