"""Where credentials come from: a kubeconfig, the pod that the process runs in, or whichever exists.

Every failure says in one line which file is at fault and what to do.
"""

import os
from pathlib import Path

from gpuloom.kube.errors import CredentialsError
from gpuloom.kube.kubeconfig import read_login
from gpuloom.kube.login import Access, Credentials, Login
from gpuloom.kube.tls import TlsSettings
from gpuloom.kube.tokens import TokenFile

__all__ = ["Access", "Credentials", "CredentialsError", "load_default", "load_in_cluster", "load_kubeconfig"]

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_kubeconfig(path: str | Path, context: str | None = None) -> Credentials:
    """Return the credentials of ``context`` (default: the current one) in a kubeconfig.

    ``path`` may name several files, separated as in ``KUBECONFIG``. Raises :class:`CredentialsError`.
    """
    files = [Path(part).expanduser() for part in str(path).split(os.pathsep) if part]
    if not files:
        raise CredentialsError("no kubeconfig named: give a path")
    return Credentials(lambda: read_login(files, context))


def load_in_cluster(directory: Path = SERVICE_ACCOUNT_DIR) -> Credentials:
    """Return the credentials of the pod's service account; raises :class:`CredentialsError` outside a cluster."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    token = directory / "token"
    if not host or not port:
        raise CredentialsError(
            "not inside a cluster (KUBERNETES_SERVICE_HOST and _PORT are not set): give a kubeconfig"
        )
    if not token.exists():
        raise CredentialsError(
            f"no service account token at {token}: set automountServiceAccountToken or give a kubeconfig"
        )
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Credentials(lambda: _service_account(server, directory))


def load_default(path: str | None = None, context: str | None = None) -> Credentials:
    """Return credentials from ``path``, else ``KUBECONFIG``, else the pod's account, else ``~/.kube/config``.

    Raises :class:`CredentialsError` if none of these exists, or the first that exists cannot be used.
    """
    if path or os.environ.get("KUBECONFIG"):
        return load_kubeconfig(path or os.environ["KUBECONFIG"], context)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not context:
        return load_in_cluster()
    home_config = Path("~/.kube/config").expanduser()
    if home_config.exists():
        return load_kubeconfig(home_config, context)
    raise CredentialsError(f"no Kubernetes credentials: name a kubeconfig, by KUBECONFIG too, or create {home_config}")


def _service_account(server: str, directory: Path) -> Login:
    namespace_file = directory / "namespace"
    namespace = namespace_file.read_text().strip() if namespace_file.exists() else ""
    tls = TlsSettings(ca=directory / "ca.crt")
    return Login(server, tls, TokenFile(directory / "token"), namespace or "default")
