"""A storm over the scheduler on a real control plane, as long and as hard as wanted; what CI runs is the default.

``PYTHONPATH=tests .venv/bin/python benchmarks/chaos.py --kills 30 --pods 1000`` prints what was found; it exits with 1
when anything was given away twice, left behind or forgotten.
"""

import argparse
import asyncio
import dataclasses
import sys
import tempfile
from pathlib import Path

from figures import print_case

from harness.chaos import Plan, run_chaos


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in dataclasses.fields(Plan):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    plan = Plan(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(run_chaos(Path(folder), plan))
    print_case("chaos", **dataclasses.asdict(plan), **dataclasses.asdict(outcome))
    sys.exit(bool(outcome.complaints))


if __name__ == "__main__":
    main()
