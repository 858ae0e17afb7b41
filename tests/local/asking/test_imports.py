"""What a command loads is what it costs before it does anything: counted, because times differ between machines."""

import re

import pytest
from local.asking.conftest import Stage, run_gpuloom

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAVY = {
    "aiohttp",
    "uvloop",
    "yarl",
    "idna",
    "multidict",
    "tempfile",
    "difflib",
    "structlog",
    "rich",
    "pygments",
    "numpy",
    "grpc",
    "google",
    "prometheus_client",
    "jinja2",
    "cryptography",
    "yaml",
}
SERVERS = {"gpuloom.scheduler", "gpuloom.node", "gpuloom.serving", "gpuloom.engine.decision", "gpuloom.kube.reflector"}


def list_loaded(told: str) -> set[str]:
    """Read what PYTHONPROFILEIMPORTTIME makes Python tell, with the packages that modules are in."""
    names = re.findall(r"^import time: +\d+ \| +\d+ \| +([\w.]+)$", told, re.MULTILINE)
    return {".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 2)}


@pytest.mark.parametrize("command", ["top", "nodes", "cards", "pods", "pending", "quota", "explain waits"])
async def test_a_question_loads_neither_servers_nor_what_draws_and_logs(stage: Stage, command: str) -> None:
    said = await stage.gpuloom(*command.split(), PYTHONPROFILEIMPORTTIME="1")
    loaded = list_loaded(said.err)
    assert said.code == 0
    assert "gpuloom.client.served" in loaded
    assert loaded & (HEAVY | SERVERS) == {"yaml"}, "the kubeconfig is YAML"


async def test_a_misspelled_command_loads_nothing_that_runs_commands() -> None:
    said = await run_gpuloom("tpo", PYTHONPROFILEIMPORTTIME="1")
    loaded = list_loaded(said.err)
    assert said.code == 2
    assert "did you mean top?" in said.err
    assert "gpuloom.cli.commands" in loaded
    assert loaded & {*HEAVY, *SERVERS, "cyclopts", "asyncio", "msgspec", "gpuloom.kube"} == {"difflib"}
