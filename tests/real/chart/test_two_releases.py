"""A second release of the chart in one cluster, on a real API server: it does not stop the first unnoticed."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from harness.controlplane import ControlPlane
from harness.helm import NAMESPACE, Helm, HelmError

pytestmark = [pytest.mark.chart, pytest.mark.control_plane, pytest.mark.timeout(600)]

ACCOUNTS = [f"system:serviceaccount:{NAMESPACE}:gpuloom-{name}" for name in ("scheduler", "device-plugin")]
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OTHER = {"release": "second", "namespace": "other"}


@pytest.fixture(scope="module")
def plane(control_plane_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("releases") / "plane") as running:
        yield running


@pytest.fixture(scope="module")
def installer(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Return helm in front of a cluster with one release."""
    running = Helm(tmp_path_factory.mktemp("helm"), kubeconfig=plane.kubeconfig)
    running.place({})
    return running


def name_accounts(accounts: list[str]) -> dict[str, Any]:
    return {"scheduler": {"admissionPolicy": {"accounts": accounts}}}


@pytest.mark.parametrize("place", [OTHER, {"release": "second"}], ids=["elsewhere", "beside"])
def test_a_second_release_is_refused_with_the_accounts_that_its_policy_would_deny(
    installer: Helm, place: dict[str, str]
) -> None:
    complaint = f"as release gpuloom in namespace {NAMESPACE}.*name {','.join(ACCOUNTS)} in"
    with pytest.raises(HelmError, match=complaint):
        installer.place({}, **place)


def test_a_second_release_is_refused_while_it_names_one_account_only(installer: Helm) -> None:
    with pytest.raises(HelmError, match=re.escape(f"name {ACCOUNTS[1]} in")):
        installer.place(name_accounts(ACCOUNTS[:1]), **OTHER)


def test_a_release_without_a_webhook_is_found_by_its_policy(installer: Helm) -> None:
    installer.place({"scheduler": {"admissionWebhook": {"enabled": False}}})
    try:
        with pytest.raises(HelmError, match=f"as release gpuloom in namespace {NAMESPACE}.*name {ACCOUNTS[0]},"):
            installer.place({}, **OTHER)
    finally:
        installer.place({})


@pytest.mark.parametrize("dashboard", [{}, {"enabled": False}], ids=["with pages", "without pages"])
def test_an_installation_that_helm_did_not_place_is_found_too(
    installer: Helm, helm: Helm, plane: ControlPlane, dashboard: dict[str, Any]
) -> None:
    values = {"scheduler": {"dashboard": dashboard}}
    objects = helm.template(values, release="argo", namespace="git", show_only=["scheduler/webhook.yaml"])
    plane.api.create(WEBHOOKS, objects[0])
    try:
        with pytest.raises(HelmError, match=r"as release argo in namespace git.*serviceaccount:git:argo-gpuloom-sch"):
            installer.place({})
    finally:
        plane.api.delete(f"{WEBHOOKS}/argo-gpuloom-webhook")


def test_a_release_is_no_obstacle_to_its_own_upgrade(installer: Helm) -> None:
    installer.place({})


def test_without_its_policy_a_second_release_denies_nothing_and_is_let_in(installer: Helm) -> None:
    policies = {"scheduler": {"admissionPolicy": {"enabled": False}}}
    try:
        installer.place(policies, **OTHER)
    finally:
        installer.uninstall(**OTHER)


def test_a_second_release_that_names_the_accounts_of_the_first_is_let_in(installer: Helm) -> None:
    try:
        installer.place(name_accounts(ACCOUNTS), **OTHER)
    finally:
        installer.uninstall(**OTHER)
