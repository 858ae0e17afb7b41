"""``gpuloom doctor`` as a process."""

import asyncio
import json
import os
import sys
from typing import Any

Findings = dict[str, list[dict[str, Any]]]


async def examine(*tokens: str) -> tuple[int, Findings]:
    """The exit code, and the findings by check."""
    code, told = await run(*tokens, "--json")
    findings: Findings = {}
    for item in json.loads(told)["items"]:
        findings.setdefault(item["check"], []).append(item)
    return code, findings


async def run(*tokens: str) -> tuple[int, str]:
    """The exit code, and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpuloom.cli", "doctor", *tokens),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""},
    )
    async with asyncio.timeout(60):
        told, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, told.decode()


def severities(findings: Findings, *checks: str) -> dict[str, str]:
    """How bad each check's first finding is."""
    return {check: findings[check][0]["severity"] for check in checks}
