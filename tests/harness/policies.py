"""The policies of the chart, installed as the chart installs them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from harness.api import Api

POLICIES = Path(__file__).resolve().parents[2] / "charts" / "gpuloom" / "policies"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
NAME = "gpuloom-owned-keys"


def read_policy(file: str) -> Any:
    """Return an object of the chart's policies."""
    return yaml.safe_load((POLICIES / file).read_text())


def read_keys(file: str) -> list[str]:
    """Return the lines of a list of the chart's policies."""
    return (POLICIES / file).read_text().splitlines()


def install_owned_keys(api: Api, *, namespace: str, accounts: Iterable[str]) -> None:
    """Protect what only gpuloom writes on pods; `accounts` may write it. The API server needs a moment to obey."""
    lists = {
        "annotations": "\n".join(read_keys("owned-annotations.txt")),
        "labels": "\n".join(read_keys("owned-labels.txt")),
        "accounts": "\n".join(accounts),
    }
    api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": NAME}, "data": lists})
    api.create(f"{_ADMISSION}/validatingadmissionpolicies", read_policy("owned-keys.yaml"))
    param = {"name": NAME, "namespace": namespace, "parameterNotFoundAction": "Deny"}
    api.create(
        f"{_ADMISSION}/validatingadmissionpolicybindings",
        {
            "metadata": {"name": NAME},
            "spec": {"policyName": NAME, "paramRef": param, "validationActions": ["Deny"]},
        },
    )
