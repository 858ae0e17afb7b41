"""Programs are built once, completely, and what stands in the way is said."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness import binaries

COMPILE = """
echo "$@" >> {log}
while [ "$1" != -o ]; do shift; done
echo program > "$2"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only directory in which programs are found; the cache of built programs is empty."""
    directory = tmp_path / "tools"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return directory


def _install(tools: Path, name: str, script: str = "") -> None:
    (tools / name).write_text(f"#!/bin/sh\n{script}")
    (tools / name).chmod(0o755)


def test_missing_program_is_built_once_even_when_two_ask(tools: Path, tmp_path: Path) -> None:
    _install(tools, "go", COMPILE.format(log=tmp_path / "log"))
    with ThreadPoolExecutor(2) as both:
        first, second = both.map(binaries.find, ["etcd", "etcd"])
    assert first == second
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_kubernetes_is_told_its_pinned_version(tools: Path, tmp_path: Path) -> None:
    _install(tools, "go", COMPILE.format(log=tmp_path / "log"))
    binaries.find("kubelet")
    assert "-X k8s.io/component-base/version.gitVersion=v1." in (tmp_path / "log").read_text()


def test_helm_is_built_from_a_module_of_its_own(tools: Path, tmp_path: Path) -> None:
    _install(tools, "go", COMPILE.format(log=tmp_path / "log"))
    assert binaries.find("helm").parent != binaries.find("kubectl").parent
    assert "-X helm.sh/helm/v3/internal/version.version=v3." in (tmp_path / "log").read_text()


def test_helm_is_told_the_kubernetes_of_its_client(tools: Path, tmp_path: Path) -> None:
    _install(tools, "go", COMPILE.format(log=tmp_path / "log"))
    binaries.find("helm")
    command = (tmp_path / "log").read_text()
    major, minor, _ = binaries.read_assumed_version(binaries.HELM).split(".")
    for package in ("pkg/chartutil", "pkg/lint/rules"):
        assert f"-X helm.sh/helm/v3/{package}.k8sVersionMajor={major.removeprefix('v')} " in command
        assert f"-X helm.sh/helm/v3/{package}.k8sVersionMinor={minor} " in command


def test_failed_build_is_reported_and_leaves_no_program(tools: Path) -> None:
    _install(tools, "go", "echo no such package >&2; exit 1")
    with pytest.raises(binaries.BuildError, match=r"cannot build etcd in .*\nno such package"):
        binaries.find("etcd")
    with pytest.raises(binaries.BuildError, match="cannot build etcd"):
        binaries.find("etcd")


def test_missing_go_is_named_as_obstacle(tools: Path) -> None:
    _install(tools, "setpriv")
    assert binaries.describe_obstacle(binaries.KUBERNETES) == (
        "Go is not installed, and it has to build "
        "kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl, kubeadm, etcd once"
    )


def test_installed_go_is_no_obstacle(tools: Path) -> None:
    _install(tools, "setpriv")
    _install(tools, "go")
    assert shutil.which("go")
    assert binaries.describe_obstacle(binaries.KUBERNETES) is None


def test_another_kubernetes_is_chosen_by_a_variable() -> None:
    modules = {minor: binaries.choose_kubernetes({"GPULOOM_KUBERNETES": minor}) for minor in ("1.34", "1.37")}
    for minor, directory in modules.items():
        pinned = replace(binaries.KUBERNETES, directory=directory)
        assert binaries.read_version(pinned).startswith(f"v{minor}."), directory


def test_without_the_variable_the_usual_kubernetes_is_tested() -> None:
    assert binaries.choose_kubernetes({}) == binaries.choose_kubernetes({"GPULOOM_KUBERNETES": ""})
    assert binaries.choose_kubernetes({}).is_dir()


def test_a_kubernetes_that_nobody_pinned_is_refused_with_those_that_are() -> None:
    with pytest.raises(binaries.BuildError, match=r"GPULOOM_KUBERNETES is 1\.1, .* 1\.34, 1\.37$"):
        binaries.choose_kubernetes({"GPULOOM_KUBERNETES": "1.1"})
