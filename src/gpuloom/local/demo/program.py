"""How a shell that knows nothing of this environment starts the gpuloom that runs here."""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

_NAME = "gpuloom"


def tell_program() -> str:
    """Return the command: the name where a PATH without this environment has it, otherwise its whole path."""
    scripts = Path(sysconfig.get_path("scripts"))
    script = scripts / _NAME
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m gpuloom.cli"
    found = shutil.which(_NAME, path=_fresh_path(scripts))
    is_ours = found is not None and Path(found).resolve() == script.resolve()
    return _NAME if is_ours else shlex.quote(str(script))


def _fresh_path(scripts: Path) -> str:
    """Return PATH as another shell has it, in which no virtual environment is active."""
    folders = os.get_exec_path()
    if sys.prefix != sys.base_prefix:
        folders = [folder for folder in folders if Path(folder).resolve() != scripts.resolve()]
    return os.pathsep.join(folders)
