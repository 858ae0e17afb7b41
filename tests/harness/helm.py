"""helm, as an administrator runs it on gpuloom's chart."""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import binaries
from harness.processes import clean_environment

CHART = Path(__file__).resolve().parents[2] / "charts" / "gpuloom"
NAMESPACE = "gpu-system"
RELEASE = "gpuloom"
REGISTRY = "registry.example"
"""Where gpuloom's images are for tests that say nothing of it: the chart makes nothing without a registry."""
_TESTED = re.compile(r'define "gpuloom.testedKubernetes" -}}(.*?){{-')


class _OneOfEachKey(yaml.CSafeLoader):
    """A loader that takes no key twice, as a strict API server."""


def _construct_mapping(loader: _OneOfEachKey, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise HelmError(f"the chart wrote twice: {', '.join(map(str, twice))}{node.start_mark}")
    return loader.construct_mapping(node, deep=True)


_OneOfEachKey.add_constructor("tag:yaml.org,2002:map", _construct_mapping)


class HelmError(Exception):
    """helm refused; the message is its own."""


class Helm:
    """helm with a home of its own in `directory`; `kubeconfig` names the cluster, without it there is none."""

    def __init__(self, directory: Path, *, kubeconfig: Path | None = None):
        self._program = binaries.find("helm")
        self._environment = clean_environment() | {"HOME": str(directory)}
        if kubeconfig is not None:
            self._environment["KUBECONFIG"] = str(kubeconfig)

    def lint(self, values: Mapping[str, Any]) -> str:
        """Return what helm has to say about the chart. Raise HelmError if it finds an error."""
        return self._run(["lint", CHART, "--strict", f"--kube-version={kube_version()}"], values)

    def template(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        version: str | None = "",
        show_only: Iterable[str] = (),
        chart: Path = CHART,
        release: str = RELEASE,
        namespace: str = NAMESPACE,
    ) -> list[Any]:
        """Return the objects that the chart makes of `values` for a cluster of this version. Raise HelmError.

        Without a version the cluster is the one that tests run; None leaves helm to what it assumes.
        """
        only = [f"--show-only=templates/{name}" for name in show_only]
        told = [] if version is None else [f"--kube-version={version or kube_version()}"]
        flags = [f"--namespace={namespace}", *told, *only]
        text = self._run(["template", release, chart, *flags], values or {})
        return [found for found in yaml.load_all(text, Loader=_OneOfEachKey) if found]

    def install(self, values: Mapping[str, Any], *, timeout_s: int = 300) -> str:
        """Install the chart and wait until everything is ready; return the notes. Raise HelmError."""
        return self._change("install", values, timeout_s, "--create-namespace")

    def place(self, values: Mapping[str, Any], *, release: str = RELEASE, namespace: str = NAMESPACE) -> str:
        """Install or upgrade the chart's objects where no node runs its pods; return the notes. Raise HelmError."""
        return self._run(
            ["upgrade", "--install", release, CHART, f"--namespace={namespace}", "--create-namespace"], values
        )

    def upgrade(self, values: Mapping[str, Any], *, timeout_s: int = 300) -> str:
        """Upgrade the release and wait until everything is ready. Raise HelmError."""
        return self._change("upgrade", values, timeout_s)

    def read_manifest(self) -> list[Any]:
        """Return the objects of the release, as the chart made them for its cluster. Raise HelmError."""
        text = self._run(["get", "manifest", RELEASE, f"--namespace={NAMESPACE}"])
        return [found for found in yaml.load_all(text, Loader=yaml.CSafeLoader) if found]

    def uninstall(self, *, release: str = RELEASE, namespace: str = NAMESPACE) -> str:
        """Take the release away and wait until it is gone. Raise HelmError."""
        return self._run(["uninstall", release, f"--namespace={namespace}", "--wait"])

    def _change(self, verb: str, values: Mapping[str, Any], timeout_s: int, *flags: str) -> str:
        wait = ("--wait", f"--timeout={timeout_s}s")
        return self._run([verb, RELEASE, CHART, f"--namespace={NAMESPACE}", *wait, *flags], values)

    def _run(self, arguments: list[str | Path], values: Mapping[str, Any] | None = None) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(_add_registry(values or {}), file)
            file.flush()
            named = [] if values is None else [f"--values={file.name}"]
            done = subprocess.run(
                [self._program, *arguments, *named],
                capture_output=True,
                text=True,
                env=self._environment,
                check=False,
            )
        if done.returncode != 0:
            raise HelmError(f"{done.stderr}{done.stdout}")
        return done.stdout


def _add_registry(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with a registry of gpuloom's images, unless they say which, or that there is none."""
    return {**values, "global": {"imageRegistry": REGISTRY} | values.get("global", {})}


def kube_version() -> str:
    """Return the version of the Kubernetes that tests run."""
    return binaries.read_version(binaries.KUBERNETES)


def copies_labels() -> bool:
    """Whether the Kubernetes that tests run takes a pod's labels from its Binding."""
    return int(kube_version().split(".")[1]) >= 35


def find_tested_version() -> str:
    """Return the version of the Kubernetes that the chart calls tested, whichever tests run now."""
    (version,) = _TESTED.findall((CHART / "templates/_helpers.tpl").read_text())
    return str(version)
