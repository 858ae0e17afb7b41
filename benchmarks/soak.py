"""A soak: pods come and go while everything that may fail fails, and every promise is checked meanwhile.

``PYTHONPATH=tests .venv/bin/python benchmarks/soak.py`` runs for an hour; a line every ten seconds says how far it is.
It ends with a table, writes all figures as JSON where ``--json`` says, and exits with 1 when a promise was not kept;
the logs of all programs are kept then. Ctrl-C ends it early with what was found until then.
"""

import argparse
import asyncio
import dataclasses
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import structlog

from harness import clocks, replicas
from harness.chaos.engine import run_chaos
from harness.chaos.plan import STORM, TWO_MINUTES, Outcome, Plan
from harness.chaos.report import describe

PLANS = {"soak": Plan(), "two-minutes": TWO_MINUTES, "storm": STORM}
OBSTACLES = (replicas.describe_obstacle, clocks.describe_obstacle)


def read_plan() -> tuple[Plan, argparse.Namespace]:
    """Return the plan that the command line asks for, and the rest of it."""
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--plan", choices=PLANS, default="soak", help="what the other numbers are, unless given")
    plan = PLANS[first.parse_known_args()[0].plan]
    parser = argparse.ArgumentParser(description=__doc__, parents=[first])
    for field in dataclasses.fields(Plan):
        value = getattr(plan, field.name)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=_parser_of(value), default=value)
    parser.add_argument("--json", type=Path, help="file for all figures")
    given = parser.parse_args()
    return Plan(**{field.name: getattr(given, field.name) for field in dataclasses.fields(Plan)}), given


def _parser_of(value: object) -> object:
    match value:
        case bool():
            return lambda text: text.lower() in {"1", "true", "yes"}
        case dict():
            return lambda text: {name: int(count) for name, count in (one.split("=") for one in text.split(","))}
    return type(value)


async def run(plan: Plan, folder: Path) -> Outcome:
    """Run until the end or a signal."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await run_chaos(folder, plan, stop=stop, tell=lambda line: print(line, flush=True))


def main() -> None:
    """Run and print."""
    plan, given = read_plan()
    if obstacles := [text for describe_obstacle in OBSTACLES if (text := describe_obstacle())]:
        sys.exit(f"cannot run: {'; '.join(obstacles)}")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    folder = Path(tempfile.mkdtemp(prefix="gpuloom-soak-"))
    print(f"plan: {json.dumps(dataclasses.asdict(plan))}\nlogs: {folder}", flush=True)
    is_kept = True
    try:
        outcome = asyncio.run(run(plan, folder))
        is_kept = bool(outcome.complaints)
    finally:
        if not is_kept:
            shutil.rmtree(folder)
    if given.json:
        given.json.write_text(json.dumps(dataclasses.asdict(outcome), indent=1) + "\n")
    print(describe(outcome), flush=True)
    if is_kept:
        print(f"logs are kept in {folder}", flush=True)
    sys.exit(is_kept)


if __name__ == "__main__":
    main()
