"""cert-manager in a cluster: its definitions, its controller, and what writes authorities into webhooks."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import yaml

from harness import binaries
from harness.closedcluster import ClosedCluster
from harness.processes import ChildProcess

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CERTIFICATES = "/apis/cert-manager.io/v1/certificates"
PROGRAMS = ("cert-manager-controller", "cert-manager-cainjector")


class CertManager:
    """cert-manager as a context manager; its processes run beside the pods of `cluster`, with an admin's rights."""

    def __init__(self, cluster: ClosedCluster, directory: Path):
        self._cluster = cluster
        self._directory = directory
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True)
        api = self._cluster.control_plane.api
        for definition in read_definitions():
            api.create(DEFINITIONS, definition)
        api.wait_for_answer(lambda: api.get(CERTIFICATES))
        for program in PROGRAMS:
            self._stack.enter_context(self._start(program))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, program: str) -> ChildProcess:
        kubeconfig = self._cluster.control_plane.inner_kubeconfig
        command: list[str | Path] = [binaries.find(program), f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
        return ChildProcess(program, self._cluster.network.enter(command), log=self._directory / f"{program}.log")


def read_definitions() -> Iterator[dict[str, Any]]:
    """Give the definitions of cert-manager's objects, without the labels that its own chart fills in."""
    for file in sorted((binaries.find_source(binaries.CERT_MANAGER) / "deploy/crds").glob("crd-*.yaml")):
        definition = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        del definition["metadata"]["labels"]
        yield definition
