"""From the flags of ``gpuloom scheduler`` to its settings; the flags themselves stand in ``scheduler/flags.py``."""

import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.ownvendors import naming_files, read_own
from gpuloom.scheduler.flags import SchedulerFlags
from gpuloom.scheduler.outlook.file import read_workload
from gpuloom.scheduler.settings import SchedulerSettings, SettingsError
from gpuloom.vendors.catalog import add_families, default_profiles, load_shipped
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.vendors.profile import Profile
from gpuloom.vendors.profilefile import VendorFile


def make_settings(
    flags: SchedulerFlags,
    environment: Mapping[str, str],
    device_config_file: Path | None = None,
    vendor_dir: Path | None = None,
    workload_file: Path | None = None,
) -> SchedulerSettings:
    """Make settings of flags.

    Raises CommandError, SettingsError, ProfileError or WorkloadError that names the flag or the file.
    """
    _check_files(flags)
    host_name = environment.get("HOSTNAME") or socket.gethostname()
    if not host_name:
        raise SettingsError("empty hostname returned: HOSTNAME is not set and this machine has no name")
    own = read_own(vendor_dir)
    with naming_files(own):
        return SchedulerSettings.of_flags(
            flags,
            host_name=host_name,
            profiles=load_profiles(device_config_file, own),
            workload=None if workload_file is None else read_workload(workload_file),
        )


def load_profiles(device_config_file: Path | None, own: Iterable[VendorFile]) -> tuple[Profile, ...]:
    """Read the profiles of all vendors: the shipped ones, a user's own, and what a device configuration changes.

    Raises CommandError or ProfileError that names the file.
    """
    families = add_families(load_shipped(), own)
    if device_config_file is None:
        return tuple(default_profiles(families))
    text = _read("--device-config-file", device_config_file)
    return tuple(apply_device_config(families, text, str(device_config_file)))


def _read(flag: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CommandError(f"{flag} {file}: {error.strerror}", ExitCode.USAGE) from error


def _check_files(flags: SchedulerFlags) -> None:
    if bool(flags.cert_file) != bool(flags.key_file):
        told = "--cert_file and --key_file belong together: give both for HTTPS, none for HTTP"
        raise CommandError(told, ExitCode.USAGE)
    for flag, file in (("--cert_file", flags.cert_file), ("--key_file", flags.key_file)):
        if file and not Path(file).is_file():
            raise CommandError(f"{flag} {file}: there is no such file", ExitCode.USAGE)
