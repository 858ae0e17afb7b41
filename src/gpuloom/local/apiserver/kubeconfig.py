"""The kubeconfig file of the local cluster."""

import base64
import os
from pathlib import Path

import msgspec


def write_kubeconfig(path: Path, *, url: str, ca_pem: bytes, token: str) -> None:
    """Write a kubeconfig with one context, readable by its owner only; an existing file is replaced."""
    cluster = {"server": url}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "gpuloom-local",
        "clusters": [{"name": "gpuloom-local", "cluster": cluster}],
        "users": [{"name": "gpuloom-local", "user": {"token": token}}],
        "contexts": [{"name": "gpuloom-local", "context": {"cluster": "gpuloom-local", "user": "gpuloom-local"}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.yaml.encode(config))
