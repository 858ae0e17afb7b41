"""Starts this file in a container as the self-test starts its programs, and prints what it sees there.

python containerlook.py DIRECTORY: the container gets a mount of DIRECTORY/given, writable, at /usr/local/given, and
the devices that DIRECTORY/cdi describes.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

KIND = "vendor.example/device"
CHANGED = ("/etc/gpuloom-test", "/usr/gpuloom-test", "/usr/local/given/written")


def look() -> dict[str, object]:
    """Return what a program in a container sees; it tries to change what is the machine's."""
    for path in CHANGED:
        Path(path).write_text("changed")
    return {
        "environment": dict(os.environ),
        "devices": sorted(path.name for path in Path("/dev").iterdir()),
        "given": Path("/usr/local/given/file").read_text(),
        "preload": Path("/etc/ld.so.preload").read_text(),
        "groups": os.getgroups(),
        "pid": os.getpid(),
    }


async def main(directory: Path) -> None:
    """Print what is seen in the container, whose number on the machine must be known."""
    from gpuloom.local.selftest.containerd import find_containerd
    from gpuloom.local.selftest.containers import Containers
    from gpuloom.local.selftest.grants import ContainerGrant
    from gpuloom.node.response import Mount

    given = ContainerGrant(
        pod="one",
        card="",
        environment={"GIVEN": "a b"},
        mounts=(
            Mount("/usr/local/given", str(directory / "given"), read_only=False),
            Mount("/etc/ld.so.preload", str(directory / "preload"), read_only=True),
        ),
        cdi_devices=(f"{KIND}=one",),
        region=directory,
    )
    async with Containers(await find_containerd("auto"), directory / "cdi") as containers:
        with (directory / "errors").open("wb+") as errors:
            async with containers.start(given, Path(__file__), [], errors) as running:
                assert running.process.stdout is not None
                line = await running.process.stdout.readline()
                if not line:
                    sys.exit(running.explain_end(await running.process.wait()))
                os.kill(running.pid, 0)
                print(line.decode(), end="")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        print(json.dumps(look()), flush=True)
        sys.stdin.read()
