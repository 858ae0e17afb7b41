"""How the scheduler is to be found."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuloom.client.idiom import COMMAND_LINE, Idiom

SERVER_VARIABLE: Final = "GPULOOM_SERVER"
SERVICE_VARIABLE: Final = "GPULOOM_SERVICE"
"""Environment variables that count where server or service is not given."""


@dataclass(frozen=True, slots=True)
class Way:
    """Which cluster, and who in it; the flags of the command line with the same names say what each means."""

    kubeconfig: str = ""
    context: str = ""
    server: str = ""
    server_ca: Path | None = None
    service: str = ""
    idiom: Idiom = COMMAND_LINE
