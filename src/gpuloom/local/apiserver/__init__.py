"""A small, honest Kubernetes API server in one process.

It behaves towards clients as kube-apiserver 1.34 does for what it serves, and refuses clearly what it does not serve:
the same tests run against both. It is the only place in gpuloom that keeps whole objects, and it knows nothing
about accelerators.
"""

from gpuloom.kube.authority import CertificateAuthority
from gpuloom.local.apiserver.faults import Fault
from gpuloom.local.apiserver.server import LocalApiServer

__all__ = ["CertificateAuthority", "Fault", "LocalApiServer"]
