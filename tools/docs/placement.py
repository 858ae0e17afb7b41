"""Makes the tables and pictures of docs/placement.md, measured anew: ``.venv/bin/python tools/docs/placement.py``.

Words name a part: ``default A`` is the table of one list and mode. On two cores all takes about ten minutes.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress

from gpuloom.cli.simulating.written import write_whole
from gpuloom.simulation.experiment import Experiment, run_experiment
from gpuloom.simulation.modes import Mode
from gpuloom.simulation.picture import draw_curves
from gpuloom.simulation.reading.traces import read_nodes, read_pods_for
from gpuloom.simulation.results import MeanResult, average

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "placement.md"
DATA = ROOT / "benchmarks" / "openb"
SEEDS = tuple(range(42, 52))
_TABLE = re.compile(
    r"(?P<begin><!-- simulated: (?P<list>\w+) (?P<mode>[AB]) -->\n)(?P<table>.*?)(?P<end><!-- end -->)", re.DOTALL
)


POLICIES: dict[Mode, tuple[str, ...]] = {
    "A": ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD", "binpack", "fragmentation"),
    "B": ("spread", "first-fit", "binpack", "BestFit", "FGD", "fragmentation"),
}
"""The policies of a table: the published ones as they were published, and what stands beside kube-scheduler."""


def measure(pods: str, mode: Mode) -> list[MeanResult]:
    """Run the policies of a table over ten seeds."""
    nodes = read_nodes(str(DATA / "openb_node_list_gpu_node.csv.xz"))
    listed, _note = read_pods_for(str(DATA / f"openb_pod_list_{pods}.csv.xz"), nodes)
    experiment = Experiment(nodes, listed, listed, POLICIES[mode], mode, SEEDS, bounded=mode == "A")
    with Progress() as progress:
        task = progress.add_task(f"{pods} {mode}", total=None)
        return average(
            run_experiment(experiment, report=lambda done, parts: progress.update(task, completed=done, total=parts))
        )


def write_table(means: Sequence[MeanResult]) -> str:
    """Return the lines of a table."""
    heads = ("Policy", "at 100 %", "idle GPUs", "failed multi-GPU")
    lines = [f"| {' | '.join(heads)} |", "|---|---|---|---|"]
    lines += [
        f"| {mean.policy} | {mean.a100.mean:.2f} ± {mean.a100.sd:.2f} "
        f"| {mean.u100.mean:.0f} | {mean.failed_multi_gpu.mean:.1f} |"
        for mean in means
    ]
    bound = means[0].bound
    if bound is not None:
        gpus = sum(node.gpus for node in read_nodes(str(DATA / "openb_node_list_gpu_node.csv.xz")))
        lines.append(f"| *bound* | {bound.mean:.2f} ± {bound.sd:.2f} | {gpus * (100 - bound.mean) / 100:.0f} | |")
    return "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pods", nargs="?", help="default, gpuspec33, multigpu50 or gpushare100")
    parser.add_argument("mode", nargs="?", choices=("A", "B"))
    asked = parser.parse_args()
    for found in list(_TABLE.finditer(PAGE.read_text(encoding="utf-8"))):
        pods, mode = found["list"], found["mode"]
        if asked.pods not in {None, pods} or asked.mode not in {None, mode}:
            continue
        means = measure(pods, mode)
        page = PAGE.read_text(encoding="utf-8")
        write_whole(PAGE, page.replace(found[0], f"{found['begin']}{write_table(means)}{found['end']}"))
        picture = ROOT / "docs" / "images" / f"placement-{pods}-{mode}.svg"
        if f"images/{picture.name}" in page:
            write_whole(picture, draw_curves(means, f"openb, list {pods}, mode {mode}, seeds 42 to 51"))


if __name__ == "__main__":
    main()
