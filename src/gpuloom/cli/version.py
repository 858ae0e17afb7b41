"""``gpuloom version``."""

import json
import platform
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from gpuloom import __version__


def print_version(*, output: Annotated[Literal["text", "json"], Parameter(name=["--output", "-o"])] = "text") -> None:
    """Print the version.

    Parameters
    ----------
    output:
        Form of the answer; JSON names Python and the machine too.

    """
    if output == "text":
        sys.stdout.write(f"gpuloom {__version__}\n")
        return
    told = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform}/{platform.machine()}",
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
