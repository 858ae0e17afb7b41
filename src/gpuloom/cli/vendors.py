"""``gpuloom vendors``: which accelerator families are served, and whether a profile of one's own is right."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from gpuloom.cli.examples import write_epilogue
from gpuloom.cli.outcomes import CommandError, ExitCode
from gpuloom.cli.ownvendors import ALL_FLAGS, check_beside_shipped, naming_files, read_own, read_own_file
from gpuloom.cli.scheduler_flags import load_profiles
from gpuloom.vendors.catalog import load_shipped, make_catalog
from gpuloom.vendors.overview import FamilyView, list_hooks, view_family, write_table
from gpuloom.vendors.profile import ProfileError

vendors_app = App(
    name="vendors",
    help="List the accelerator families that are served, or check a profile of one.",
    help_epilogue=write_epilogue("vendors"),
)


@vendors_app.default
def list_vendors(
    *,
    device_config_file: Path | None = None,
    vendor_dir: Path | None = None,
    all_families: Annotated[bool, Parameter(name="--all", negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
    markdown: Annotated[bool, Parameter(negative=())] = False,
) -> ExitCode:
    """List the families that a scheduler with these files would serve.

    Parameters
    ----------
    device_config_file:
        Device configuration (device-config.yaml); without it the values of HAMi's chart.
    vendor_dir:
        Folder with profiles of more vendors (*.toml).
    all_families:
        Also those that a flag of the scheduler switches on.
    json:
        Print JSON.
    markdown:
        Print the table of all shipped families as it stands in the documentation.

    """
    if markdown:
        sys.stdout.write(write_table(profile for family in load_shipped() for profile in family.profiles))
        return ExitCode.YES
    try:
        own = read_own(vendor_dir)
        with naming_files(own):
            catalog = make_catalog(load_profiles(device_config_file, own), ALL_FLAGS if all_families else ())
    except ProfileError as error:
        raise CommandError(str(error)) from error
    views = [view_family(profile) for profile in catalog]
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(views)).decode() + "\n")
    else:
        Console().print(_make_table(views))
    return ExitCode.YES


def _make_table(views: list[FamilyView]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("WORD", "FAMILY", "COUNT", "MEMORY", "CORES", "NODE SAYS"):
        table.add_column(column, overflow="fold")
    for view in views:
        table.add_row(view.word, view.name, view.count, view.memory, view.cores, view.node)
    return table


@vendors_app.command(name="check")
def check_profile(file: Path) -> ExitCode:
    """Check a profile: keys, names of checks and hooks, and that it is in nobody's way.

    Parameters
    ----------
    file:
        The profile (*.toml).

    """
    try:
        family = read_own_file(file, str(file))
        check_beside_shipped([family])
    except ProfileError as error:
        sys.stdout.write(f"{error}\n")
        return ExitCode.NO
    for profile in family.profiles:
        view = view_family(profile)
        numbered = [f"{prefix}0" for prefix in profile.write.owned_prefixes]
        sys.stdout.write(f"{profile.word}: {view.name}\n")
        told = {
            "users ask for": ", ".join(profile.resources.all),
            "nodes say": view.node,
            "checks, in order": ", ".join(profile.fit.checks),
            "hooks": ", ".join(f"{name} ({field})" for field, name in list_hooks(profile).items()) or "none",
            "decisions write": ", ".join([*sorted(profile.owned_keys), *numbered]),
            "written on nodes": ", ".join(sorted(profile.node_writes)) or "nothing",
        }
        sys.stdout.writelines(f"  {key}: {value}\n" for key, value in told.items())
    return ExitCode.YES
