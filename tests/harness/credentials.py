"""What a control plane trusts: its certificates, the key of service accounts, tokens, and kubeconfig files."""

import csv
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

SERVICE_ADDRESS = "10.0.0.1"
NODE_ADDRESS = "10.0.1.1"
"""Where the API server finds a kubelet in the network of pods, for logs, exec and port-forward."""

SERVING_NAMES = ("127.0.0.1", "localhost", "kubernetes.default.svc", SERVICE_ADDRESS)


def _make_token() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class User:
    """Someone whom the API server knows by a bearer token; `groups` decide what RBAC allows."""

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=_make_token)


class Keys:
    """The files of one control plane's credentials, written once into `directory`."""

    def __init__(self, directory: Path):
        directory.mkdir(mode=0o700)
        self.ca_file = directory / "ca.pem"
        self.serving_file = directory / "serving.pem"
        self.token_file = directory / "tokens.csv"
        self.account_key_file = directory / "service-accounts.key"
        self.account_public_file = directory / "service-accounts.pub"
        self._write_certificates()
        self._write_account_keys()

    def write_tokens(self, users: Iterable[User]) -> None:
        """Write the users in the form that the API server reads at its start."""
        with self.token_file.open("w", newline="") as file:
            for user in users:
                csv.writer(file).writerow([user.token, user.name, user.name, ",".join(user.groups)])

    def _write_certificates(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca_file))
        authority.issue_cert(*SERVING_NAMES).private_key_and_cert_chain_pem.write_to_path(str(self.serving_file))

    def _write_account_keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        self.account_key_file.write_bytes(private)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.account_public_file.write_bytes(public)


def write_kubeconfig(path: Path, *, url: str, ca_file: Path, token: str) -> None:
    """Write a kubeconfig file for one user, readable by its owner only. JSON is YAML."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1))
