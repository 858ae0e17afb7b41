"""The exercise of docs/own-vendor.md, step by step with the files of the page."""

import tempfile
from pathlib import Path
from typing import Any

from gpuloom.cli.commands import run
from gpuloom.cli.outcomes import ExitCode
from gpuloom.cli.ownvendors import read_own
from gpuloom.kube.resources import PODS
from gpuloom.local.cluster import LocalCluster
from gpuloom.local.demo.story import describe_stage
from gpuloom.local.waiting import wait_until
from gpuloom.vendors.catalog import default_profiles

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "docs" / "examples"
PAGE = (ROOT / "docs" / "own-vendor.md").read_text(encoding="utf-8")
WRITTEN = {"acme.example/allocated": "Acme-1,Acme,4096,25:;", "acme.example/card-index": "1"}


async def test_an_accelerator_that_nobody_knew_runs_a_pod() -> None:
    assert run(["vendors", "check", str(EXAMPLES / "acme.toml")]) == ExitCode.YES
    own = default_profiles(read_own(EXAMPLES))
    limits = {"acme.example/card": "1", "acme.example/memory": "4"}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "acme", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": limits}}]},
    }
    with tempfile.TemporaryDirectory(prefix="gl-") as directory:
        async with LocalCluster(describe_stage(own), Path(directory), backoff_initial_s=0.1) as cluster:
            await cluster.wait_until_registered()
            await cluster.submit(pod)
            pods = await wait_until(
                cluster.client,
                PODS,
                lambda found: any(one.name == "acme" and one.status.phase == "Running" for one in found.values()),
                timeout_s=60,
            )
    running = pods["default", "acme"]
    assert running.spec.node_name == "node-acme"
    assert {key: running.annotations[key] for key in WRITTEN} == WRITTEN


def test_the_page_says_what_is_written() -> None:
    assert all(f"{key}: {value}\n" in PAGE for key, value in WRITTEN.items())
