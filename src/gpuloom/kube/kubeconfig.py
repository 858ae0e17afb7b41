"""Kubeconfig files: found, merged as kubectl does, and turned into a :class:`~gpuloom.kube.login.Login`.

Only reads files; refuses by name what it does not support, instead of ignoring it.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpuloom.kube.errors import CredentialsError
from gpuloom.kube.execplugin import VERSIONS, ExecCommand, ExecPlugin
from gpuloom.kube.login import Login
from gpuloom.kube.tls import Pem, TlsSettings, read_pem
from gpuloom.kube.tokens import FixedProof, Proof, ProofSource, TokenFile

E = TypeVar("E")


class ClusterEntry(msgspec.Struct, rename="kebab"):
    """``cluster``: a server and how to recognise it."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class ExecEnv(msgspec.Struct):
    """One variable for an exec plugin."""

    name: str
    value: str = ""


class Exec(msgspec.Struct, rename="camel"):
    """``exec``: a program that hands out credentials."""

    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[ExecEnv] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class UserEntry(msgspec.Struct, rename={"token_file": "tokenFile", "exec_plugin": "exec", "impersonate": "as"}):
    """``user``: how to prove who we are."""

    client_certificate: str = msgspec.field(default="", name="client-certificate")
    client_certificate_data: str = msgspec.field(default="", name="client-certificate-data")
    client_key: str = msgspec.field(default="", name="client-key")
    client_key_data: str = msgspec.field(default="", name="client-key-data")
    token: str = ""
    token_file: str = ""
    exec_plugin: Exec | None = None
    impersonate: str = ""
    username: str = ""
    auth_provider: dict[str, Any] | None = msgspec.field(default=None, name="auth-provider")


class Context(msgspec.Struct):
    """``context``: a cluster, a user and a namespace under one name."""

    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class NamedCluster(msgspec.Struct):
    """An entry of ``clusters``."""

    name: str
    cluster: ClusterEntry | None = None


class NamedUser(msgspec.Struct):
    """An entry of ``users``."""

    name: str
    user: UserEntry | None = None


class NamedContext(msgspec.Struct):
    """An entry of ``contexts``."""

    name: str
    context: Context | None = None


class KubeConfig(msgspec.Struct, rename="kebab"):
    """One file."""

    current_context: str = ""
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


def read_login(files: Sequence[Path], context: str | None = None) -> Login:
    """Read the login of ``context`` (the current one by default) from one or several files.

    When several files define a name, the first one wins; files that do not exist are skipped, as kubectl does. Raises
    :class:`CredentialsError` with a message of one line.
    """
    return _Merged(_read_files(files)).login(context)


def _read_files(files: Sequence[Path]) -> list[tuple[Path, KubeConfig]]:
    configs = [(file, _read_file(file)) for file in files if len(files) == 1 or file.exists()]
    if not configs:
        raise CredentialsError(
            f"none of the kubeconfig files {', '.join(map(str, files))} exists: create one or correct KUBECONFIG"
        )
    return configs


def _read_file(file: Path) -> KubeConfig:
    try:
        return msgspec.yaml.decode(file.read_bytes(), type=KubeConfig | None) or KubeConfig()
    except OSError as error:
        raise CredentialsError(
            f"cannot read the kubeconfig {file}: {error.strerror}; name another, or correct KUBECONFIG"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())
        raise CredentialsError(f"the kubeconfig {file} cannot be understood: {text}; correct it") from error


class _Merged:
    """Several files seen as one; every entry remembers its own, because its paths are relative to that."""

    def __init__(self, configs: Sequence[tuple[Path, KubeConfig]]) -> None:
        self._files = ", ".join(str(file) for file, _ in configs)
        self._current = next((config.current_context for _, config in configs if config.current_context), "")
        self._contexts: dict[str, Context] = {}
        self._clusters: dict[str, tuple[Path, ClusterEntry]] = {}
        self._users: dict[str, tuple[Path, UserEntry]] = {}
        for file, config in configs:
            for context in config.contexts or []:
                self._contexts.setdefault(context.name, context.context or Context())
            for cluster in config.clusters or []:
                self._clusters.setdefault(cluster.name, (file, cluster.cluster or ClusterEntry()))
            for user in config.users or []:
                self._users.setdefault(user.name, (file, user.user or UserEntry()))

    def login(self, context_name: str | None) -> Login:
        wanted = context_name or self._current
        if not wanted:
            raise CredentialsError(f"the kubeconfig {self._files} has no current-context: set one or name a context")
        context = self._find(self._contexts, "context", wanted)
        file, cluster = self._find(self._clusters, "cluster", context.cluster)
        user_file, user = self._find(self._users, "user", context.user) if context.user else (file, UserEntry())
        if cluster.proxy_url:
            raise CredentialsError(
                f"cluster {context.cluster!r} in {file} asks for proxy-url {cluster.proxy_url!r}, which gpuloom "
                "does not support: name a server that is reachable directly"
            )
        if not cluster.server:
            raise CredentialsError(f"cluster {context.cluster!r} in {file} has no server: set its URL")
        _refuse_unsupported(user_file, context.user, user)
        tls = TlsSettings(
            ca=_pem(file, cluster.certificate_authority, cluster.certificate_authority_data, "certificate-authority"),
            certificate=_pem(user_file, user.client_certificate, user.client_certificate_data, "client-certificate"),
            key=_pem(user_file, user.client_key, user.client_key_data, "client-key"),
            insecure=cluster.insecure_skip_tls_verify,
            server_name=cluster.tls_server_name,
        )
        source = _proof_source(user_file, user, context.user, cluster)
        try:
            return Login(cluster.server, tls, source, context.namespace or "default")
        except CredentialsError as error:
            raise CredentialsError(f"cluster {context.cluster!r} in {file}: {error}") from None

    def _find(self, entries: Mapping[str, E], what: str, name: str) -> E:
        try:
            return entries[name]
        except KeyError:
            known = ", ".join(sorted(entries)) or "none"
            raise CredentialsError(f"no {what} {name!r} in the kubeconfig {self._files}; there are: {known}") from None


def _refuse_unsupported(file: Path, name: str, user: UserEntry) -> None:
    asked = {"as": user.impersonate, "username": user.username, "auth-provider": user.auth_provider}
    for key, value in asked.items():
        if value:
            raise CredentialsError(
                f"user {name!r} in {file} uses {key}, which gpuloom does not support: "
                "use a token, a client certificate or exec"
            )


def _proof_source(file: Path, user: UserEntry, name: str, cluster: ClusterEntry) -> ProofSource:
    if user.token_file:
        return TokenFile(_beside(file, user.token_file))
    if user.token:
        return FixedProof(Proof(token=user.token))
    if user.exec_plugin is None:
        return FixedProof(Proof())
    return ExecPlugin(_exec_command(file, user.exec_plugin, name, cluster))


def _exec_command(file: Path, plugin: Exec, name: str, cluster: ClusterEntry) -> ExecCommand:
    if plugin.api_version not in VERSIONS or not plugin.command:
        raise CredentialsError(
            f"the exec entry of user {name!r} in {file} needs a command and one of the versions "
            f"{', '.join(sorted(VERSIONS))}"
        )
    if plugin.interactive_mode == "Always":
        raise CredentialsError(
            f"the exec entry of user {name!r} in {file} needs a terminal (interactiveMode Always): there is none"
        )
    # Like a path in the file's other fields; a bare name is looked up in PATH.
    command = str(_beside(file, plugin.command)) if os.sep in plugin.command else plugin.command
    return ExecCommand(
        plugin.api_version,
        command,
        args=plugin.args or (),
        env={variable.name: variable.value for variable in plugin.env or []},
        install_hint=plugin.install_hint,
        cluster=_cluster_info(file, cluster) if plugin.provide_cluster_info else {},
    )


def _cluster_info(file: Path, cluster: ClusterEntry) -> dict[str, object]:
    info: dict[str, object] = {"server": cluster.server}
    ca = _pem(file, cluster.certificate_authority, cluster.certificate_authority_data, "certificate-authority")
    if ca is not None:
        text = ca if isinstance(ca, bytes) else read_pem(ca, "certificate authority")
        info["certificate-authority-data"] = base64.b64encode(text).decode()
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    return info


def _pem(file: Path, name: str, data: str, what: str) -> Pem | None:
    if not data:
        return _beside(file, name) if name else None
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise CredentialsError(f"{what}-data in {file} is no base64: {error}; correct it") from error


def _beside(file: Path, name: str) -> Path:
    return file.absolute().parent / name
