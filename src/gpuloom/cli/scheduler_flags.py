"""From the flags of ``gpuloom scheduler`` to its settings; the flags themselves stand in ``scheduler/flags.py``."""

import socket
from collections.abc import Mapping
from pathlib import Path

from gpuloom.cli.outcomes import CommandError
from gpuloom.scheduler.flags import SchedulerFlags
from gpuloom.scheduler.settings import SchedulerSettings
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.vendors.profile import Profile, load_nvidia


def make_settings(
    flags: SchedulerFlags, environment: Mapping[str, str], device_config_file: Path | None = None
) -> SchedulerSettings:
    """Make settings of flags.

    Raises CommandError, SettingsError or ProfileError that names the flag or the file.
    """
    _check_files(flags)
    return SchedulerSettings.of_flags(
        flags,
        host_name=environment.get("HOSTNAME") or socket.gethostname(),
        profile=_load_profile(device_config_file),
    )


def _load_profile(file: Path | None) -> Profile:
    profile = load_nvidia()
    if file is None:
        return profile
    try:
        text = file.read_bytes()
    except OSError as error:
        raise CommandError(f"--device-config-file {file}: {error.strerror}") from error
    return apply_device_config(profile, text, str(file))


def _check_files(flags: SchedulerFlags) -> None:
    if bool(flags.cert_file) != bool(flags.key_file):
        raise CommandError("--cert_file and --key_file belong together: give both for HTTPS, none for HTTP")
    for flag, file in (("--cert_file", flags.cert_file), ("--key_file", flags.key_file)):
        if file and not Path(file).is_file():
            raise CommandError(f"{flag} {file}: there is no such file")
