"""The policies of the chart, installed as the chart installs them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.api import Api

POLICIES = Path(__file__).resolve().parents[2] / "charts" / "gpuloom" / "policies"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES_PATH = f"{_ADMISSION}/validatingadmissionpolicies"
BINDINGS_PATH = f"{_ADMISSION}/validatingadmissionpolicybindings"
NAME = "gpuloom-owned-keys"


def read_policy(file: str) -> Any:
    """Return an object of the chart's policies."""
    return yaml.safe_load((POLICIES / file).read_text())


def read_keys(file: str) -> list[str]:
    """Return the lines of a list of the chart's policies."""
    return (POLICIES / file).read_text().splitlines()


def install_owned_keys(api: Api, *, accounts: Iterable[str]) -> None:
    """Protect what only gpuloom writes on pods; `accounts` may write it. The API server needs a moment to obey."""
    owned = {"ownedAnnotations": read_keys("owned-annotations.txt"), "ownedLabels": read_keys("owned-labels.txt")}
    _install(api, "owned-keys.yaml", {**owned, "accounts": list(accounts)})


def install_requests(api: Api, *, resources: Iterable[str], scheduler_name: str) -> None:
    """Let pods that ask for the resources come through that scheduler. The API server needs a moment to obey."""
    _install(api, "requests.yaml", {"resources": dict.fromkeys(resources, True), "ours": scheduler_name})


def _install(api: Api, file: str, variables: Mapping[str, Any]) -> None:
    policy = read_policy(file)
    for variable in policy["spec"]["variables"]:
        if variable["name"] in variables:
            variable["expression"] = json.dumps(variables[variable["name"]])
    api.create(POLICIES_PATH, policy)
    name = policy["metadata"]["name"]
    spec = {"policyName": name, "validationActions": ["Deny"]}
    api.create(BINDINGS_PATH, {"metadata": {"name": name}, "spec": spec})


def remove_owned_keys(api: Api) -> None:
    """Take the policy away as helm does."""
    api.delete(f"{POLICIES_PATH}/{NAME}")
    api.delete(f"{BINDINGS_PATH}/{NAME}")
