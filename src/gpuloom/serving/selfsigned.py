"""A process's own certificate, for callers that do not check it, as for kube-scheduler's metrics.

It hides the traffic from those who only listen. Its key is never stored and ends with the process.
"""

import datetime as dt
import socket

from gpuloom.kube.authority import CertificateAuthority
from gpuloom.serving.presented import Pair, Presented

_LIFETIME = dt.timedelta(days=3650)


def present_own() -> Presented:
    """Return one in the name of this machine."""
    authority = CertificateAuthority.create("gpuloom self-signed", lifetime=_LIFETIME)
    return Presented(Pair(*authority.issue([socket.gethostname() or "localhost", "localhost"])), "its own certificate")
