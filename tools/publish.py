"""Builds gpuloom's images, chart and wheel and pushes them to a registry of your own.

Usage: make publish ARGS="--registry REGISTRY --base NAME@sha256:..." (more: --help)
Images and chart go to a container registry, as REGISTRY/gpuloom/scheduler, REGISTRY/gpuloom/node and
oci://REGISTRY/charts/gpuloom; the wheel to an index of packages, with --index. Log in to the registry with the tools
that push: docker or buildah, helm, cosign; the index's account is in UV_PUBLISH_TOKEN, or UV_PUBLISH_USERNAME and
UV_PUBLISH_PASSWORD. With --krew URL, an archive that you put there, and its manifest, are made in build/krew. All is
built before anything is pushed. Ends with 1 where a step failed, 2 for wrong arguments.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("scheduler", "node")
BUILDERS = ("docker", "buildah")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class PublishError(Exception):
    """A step failed; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be published, and where.

    registry  of images and chart, such as registry.example/team
    base      the images' base image, by digest
    index     where wheels are uploaded, empty for no wheel
    krew      where the archive for kubectl's plugin manager will be, empty for none
    sign      None: unsigned; empty: cosign signs without a key; else the name of cosign's key
    insecure  the registry speaks plain HTTP
    builder   docker or buildah
    options   more arguments for its build
    """

    registry: str
    base: str
    builder: str
    index: str = ""
    krew: str = ""
    sign: str | None = None
    insecure: bool = False
    options: tuple[str, ...] = ()


def main(arguments: Sequence[str]) -> int:
    """Publish, and tell what is where; return the exit status."""
    try:
        order = read_order(arguments)
        version = read_version()
        require_programs(order)
        with tempfile.TemporaryDirectory(prefix="gpuloom-publish-") as directory:
            published = publish(order, version, Path(directory))
    except PublishError as error:
        print(f"publish: {error}", file=sys.stderr)
        return 1
    print("\n".join(published))
    print(
        f"\nhelm install gpuloom oci://{order.registry}/charts/gpuloom --version {version} --namespace gpu-system"
        f" --create-namespace --set global.imageRegistry={order.registry}"
    )
    return 0


def read_order(arguments: Sequence[str]) -> Order:
    """Read the command line; argparse ends the process with 2 where it is wrong."""
    parser = argparse.ArgumentParser(prog="publish", description="Build and push gpuloom's images, chart and wheel.")
    parser.add_argument("--registry", required=True, help="of images and chart, such as registry.example/team")
    parser.add_argument("--base", required=True, help="base image by digest: python:3.14-slim@sha256:...")
    parser.add_argument("--index", default="", help="URL to which the wheel is uploaded; no wheel without it")
    parser.add_argument("--krew", default="", metavar="URL", help="make a plugin for krew, whose archive will be there")
    parser.add_argument("--sign", nargs="?", const="", metavar="KEY", help="sign with cosign, keyless or with a key")
    parser.add_argument("--insecure", action="store_true", help="the registry speaks plain HTTP")
    parser.add_argument("--builder", choices=BUILDERS, help="docker, or buildah where there is no docker")
    parser.add_argument("--build-option", action="append", default=[], help="one more argument of docker build")
    found = parser.parse_args(arguments)
    if "://" in found.registry or found.registry.endswith("/"):
        parser.error(f"--registry {found.registry}: a host and perhaps a path, without https:// and a slash at the end")
    builder = found.builder or next((name for name in BUILDERS if shutil.which(name)), BUILDERS[0])
    return Order(
        registry=found.registry,
        base=found.base,
        builder=builder,
        index=found.index,
        krew=found.krew,
        sign=found.sign,
        insecure=found.insecure,
        options=tuple(found.build_option),
    )


def read_version(root: Path = ROOT) -> str:
    """Return the version of wheel, chart and images. Raise PublishError where they do not agree."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    chart = dict(
        re.findall(r"^(version|appVersion): (\S+)$", (root / "charts/gpuloom/Chart.yaml").read_text(), re.MULTILINE)
    )
    if set(chart.values()) != {version}:
        raise PublishError(f"pyproject.toml says {version} and charts/gpuloom/Chart.yaml {chart}: make them agree")
    return version


def require_programs(order: Order) -> None:
    """Raise PublishError for a program that is missing, before anything is built."""
    wanted = [order.builder, "helm", *(["cosign"] if order.sign is not None else [])]
    if missing := [name for name in wanted if not shutil.which(name)]:
        raise PublishError(f"needs {', '.join(missing)}: install it, or put it into the PATH")


def publish(order: Order, version: str, directory: Path) -> list[str]:
    """Build all, push all; return the names of what is published, images and chart by digest. Raise PublishError."""
    names = {target: f"{order.registry}/gpuloom/{target}:{version}" for target in TARGETS}
    for target, name in names.items():
        build_image(order, target, name)
    run("helm", "package", "charts/gpuloom", "--destination", directory)
    wheel = build_wheel(directory) if order.index or order.krew else None
    plugin = make_plugin(wheel, order.krew) if wheel and order.krew else []
    published = [push_image(order, name, directory) for name in names.values()]
    published.append(push_chart(order, directory / f"gpuloom-{version}.tgz"))
    if order.sign is not None:
        for name in published:
            sign(order, name)
    if wheel and order.index:
        run(Path(sys.executable).with_name("uv"), "publish", "--publish-url", order.index, wheel)
        published.append(f"{wheel.name} in {order.index}")
    return published + plugin


def build_image(order: Order, target: str, name: str) -> None:
    """Build one of the targets of images/Dockerfile."""
    given = ("--target", target, "--build-arg", f"BASE={order.base}", *order.options)
    run(order.builder, "build", "-f", "images/Dockerfile", *given, "-t", name, ".")


def build_wheel(directory: Path) -> Path:
    """Build the wheel with the backend of the lock; the index has no part in it."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory)
    (wheel,) = directory.glob("*.whl")
    return wheel


def make_plugin(wheel: Path, url: str) -> list[str]:
    """Make archive and manifest for krew; return where they are."""
    made = run(sys.executable, "tools/cli/krew.py", "--wheel", wheel, "--url", url).split()
    return [str(Path(name).relative_to(ROOT)) for name in made]


def push_image(order: Order, name: str, directory: Path) -> str:
    """Push an image; return its name by digest, as the registry has it."""
    if order.builder == "buildah":
        digest = directory / "digest"
        run("buildah", "push", f"--tls-verify={str(not order.insecure).lower()}", "--digestfile", digest, name)
        return by_digest(name, digest.read_text())
    run("docker", "push", name)
    return by_digest(name, run("docker", "image", "inspect", "--format", "{{json .RepoDigests}}", name))


def push_chart(order: Order, archive: Path) -> str:
    """Push the chart; return its name by digest."""
    plain = ["--plain-http"] if order.insecure else []
    told = run("helm", "push", archive, f"oci://{order.registry}/charts", *plain)
    return by_digest(f"{order.registry}/charts/gpuloom:", told)


def by_digest(name: str, told: str) -> str:
    """Return a name with the digest that a tool told of it: docker tells one for each registry that has the image."""
    repository = name.rpartition(":")[0]
    found = re.search(rf"{re.escape(repository)}@({_DIGEST.pattern})", told)
    digests = [found[1]] if found else _DIGEST.findall(told)
    if not digests:
        raise PublishError(f"{name} was pushed, and its digest was not told: {told.strip()[:200]}")
    return f"{repository}@{digests[0]}"


def sign(order: Order, name: str) -> None:
    """Sign what the registry has under a digest."""
    key = ["--key", order.sign] if order.sign else []
    plain = ["--allow-http-registry"] if order.insecure else []
    run("cosign", "sign", "--yes", *key, *plain, name)


def run(*command: str | Path) -> str:
    """Run a tool in the checkout and return both of its outputs. Raise PublishError with their end if it fails."""
    words = [str(word) for word in command]
    print(f"+ {' '.join(words)}", file=sys.stderr, flush=True)
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise PublishError(f"{' '.join(words[:3])} ended with {done.returncode}: {done.stdout.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
