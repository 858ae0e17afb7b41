"""The lists and names in the chart's policies are those of the code."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gpuloom.model.share import Share
from gpuloom.node.response import HostFacts, build_limiter
from gpuloom.node.settings import InjectionSettings, NodeSettings
from gpuloom.node.visibility import show_cards
from gpuloom.scheduler.leadership.rolelabel import ROLE_LABEL
from gpuloom.vendors.catalog import load_shipped
from gpuloom.wire import keys
from gpuloom.wire.fullpods import FullContainer
from harness.policies import POLICIES, read_keys, read_policy

NEW_POLICIES = ("requests.yaml", "accounts.yaml", "deletions.yaml", "environment.yaml")
HARMLESS = {"LIBCUDA_LOG_LEVEL"}
"""What the device plugin sets that shows and limits nothing."""
READ_BY_HAMI_CORE = {
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_SM_LIMIT",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE",
    "CUDA_TASK_PRIORITY",
    "GPU_CORE_UTILIZATION_POLICY",
    "ACTIVE_OOM_KILLER",
    "CUDA_REDIRECT",
    "RECORD_KERNEL_INTERVAL",
    "CUDA_OVERSUBSCRIBE",
}
"""Device plugin 15.1, without CUDA_VISIBLE_DEVICES, which hides cards and shows none."""


def read_expressions(file: str) -> str:
    """Return all expressions of a policy as one text."""
    spec = read_policy(file)["spec"]
    parts = [one["expression"] for one in (*spec["variables"], *spec["validations"])]
    return " ".join(" ".join(parts).split())


def list_injected() -> set[str]:
    """Return the variables that a device plugin gives with everything switched on."""
    settings = NodeSettings(
        node_name="n",
        device_memory_scaling=2.0,
        lib_cuda_log_level="1",
        disable_core_limit=True,
        injection=InjectionSettings(driver_parts=("gdrcopy", "gds", "mofed"), imex_channels=(0,)),
    )
    shares = [Share("GPU-a", "NVIDIA", 1000, 10)]
    host = HostFacts(library="/l")
    limited = build_limiter(FullContainer(name="c"), shares, settings, host, cache=("/c", "x"))
    shown = show_cards(["GPU-a"], settings.injection, {}, host, request_id="")
    return {*limited.environment, *shown.environment}


def is_denied(name: str) -> bool:
    return name in read_keys("environment.txt") or any(name.startswith(prefix) for prefix in find_prefixes())


def find_prefixes() -> set[str]:
    return set(re.findall(r'one\.name\.startsWith\("(\w+)"\)', read_expressions("environment.yaml")))


def test_what_a_device_plugin_sets_and_hami_core_reads_is_denied_in_pods_with_shares() -> None:
    assert "CUDA_DEVICE_MEMORY_LIMIT_0" in list_injected()
    assert [name for name in (list_injected() | READ_BY_HAMI_CORE) - HARMLESS if not is_denied(name)] == []
    assert not any(is_denied(name) for name in HARMLESS)


@pytest.mark.parametrize("name", ["NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD", "CUDA_DISABLE_CONTROL"])
def test_what_undoes_the_limits_is_denied(name: str) -> None:
    assert is_denied(name)


def test_every_exception_is_about_a_variable_that_is_denied() -> None:
    named = set(re.findall(r'one\.name == "(\w+)"', read_expressions("environment.yaml")))
    assert named
    assert [name for name in named if not is_denied(name)] == []


def test_the_list_of_variables_is_sorted_and_has_each_once() -> None:
    assert read_keys("environment.txt") == sorted(set(read_keys("environment.txt")))


def list_node_writes() -> set[str]:
    return {key for family in load_shipped() for profile in family.profiles for key in profile.node_writes}


def test_the_node_annotations_are_those_that_the_scheduler_writes_for_shipped_vendors() -> None:
    """What HAMi's naming says beforehand is covered by its prefix, for chips that a configuration adds."""
    covered = "hami.io/node-handshake-"
    assert f'key.startsWith("{covered}")' in read_expressions("accounts.yaml")
    assert read_keys("node-annotations.txt") == sorted(key for key in list_node_writes() if not key.startswith(covered))


def test_the_policy_about_accounts_knows_owned_annotations_as_the_one_about_owned_keys_does() -> None:
    rules = set(re.findall(r'key\.(?:starts|ends)With\("[^"]+"\)', read_expressions("owned-keys.yaml")))
    assert rules
    assert [rule for rule in rules if rule not in read_expressions("accounts.yaml")] == []


@pytest.mark.parametrize(
    "key",
    [
        keys.DEVICES_TO_ALLOCATE,
        keys.MIG_ALLOCATIONS,
        keys.BIND_PHASE,
        keys.NODE_REGISTER,
        keys.NODE_PAIR_SCORES,
        keys.NODE_HANDSHAKE,
        keys.NODE_LOCK,
        keys.NODE_SERVES,
        ROLE_LABEL,
    ],
)
def test_what_accounts_write_is_named(key: str) -> None:
    assert f'"{key}"' in read_expressions("accounts.yaml")


def _list_selectors(constraints: Any) -> Iterator[str]:
    yield from constraints.keys() - {"resourceRules"}


@pytest.mark.parametrize("file", NEW_POLICIES)
def test_nothing_in_an_object_leads_past_a_policy(file: str) -> None:
    spec = read_policy(file)["spec"]
    assert list(_list_selectors(spec["matchConstraints"])) == []
    assert "matchConditions" not in spec
    assert spec["failurePolicy"] == "Fail"


def test_every_file_of_policies_is_one_that_tests_know() -> None:
    assert {path.name for path in POLICIES.glob("*.yaml")} == {*NEW_POLICIES, "owned-keys.yaml"}
