"""kubectl, as an administrator runs it."""

import os
import subprocess
from pathlib import Path

from harness import binaries
from harness.controlplane import ControlPlane


def kubectl(plane: ControlPlane, *arguments: str | Path, status: int = 0) -> str:
    """Let kubectl do something; return what it prints."""
    command = [binaries.find("kubectl"), f"--kubeconfig={plane.kubeconfig}", *arguments]
    home = {"HOME": str(plane.kubeconfig.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | home)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout
