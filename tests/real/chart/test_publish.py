"""What make publish pushed to a registry of one's own can be pulled from there, by name and by digest."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from urllib.request import Request, urlopen

import pytest

from harness import binaries, builder
from harness.availability import require
from harness.controlplane import accepts, find_free_ports
from harness.helm import Helm
from harness.processes import ChildProcess, clean_environment

pytestmark = [pytest.mark.images, pytest.mark.chart, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[3]
MANIFESTS = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
CONFIGURATION = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {directory}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Return the address of an empty registry."""
    require(which("docker-registry"), "docker-registry is not installed (see tools/debian-packages.txt)")
    (port,) = find_free_ports(1)
    file = tmp_path / "registry.yaml"
    file.write_text(CONFIGURATION.format(directory=tmp_path / "registry", port=port))
    command: list[str | Path] = ["docker-registry", "serve", file]
    with ChildProcess("registry", command, log=tmp_path / "registry.log") as running:
        running.wait_until(lambda: accepts(port))
        yield f"127.0.0.1:{port}"


@dataclass
class Index:
    """An index of packages that takes whatever is uploaded."""

    url: str = ""
    uploads: list[bytes] = field(default_factory=list)


@contextmanager
def open_index() -> Iterator[Index]:
    index = Index()

    class Upload(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            chunked = self.headers.get("Transfer-Encoding") == "chunked"
            index.uploads.append(
                self.read_chunks() if chunked else self.rfile.read(int(self.headers["Content-Length"]))
            )
            self.send_response(200)
            self.end_headers()

        def read_chunks(self) -> bytes:
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return content

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Upload) as server:
        index.url = f"http://127.0.0.1:{server.server_port}/legacy/"
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield index
        finally:
            server.shutdown()
            serving.join()


def fetch_config(registry: str, repository: str, reference: str) -> dict[str, object]:
    """Return the configuration that a repository has under a tag or digest."""
    base = f"http://{registry}/v2/{repository}"
    with urlopen(Request(f"{base}/manifests/{reference}", headers={"Accept": MANIFESTS})) as reply:
        manifest = json.load(reply)
    with urlopen(f"{base}/blobs/{manifest['config']['digest']}") as reply:
        config: dict[str, object] = json.load(reply)
    return config


@pytest.fixture
def building(tmp_path: Path) -> Iterator[builder.Builder]:
    obstacle = builder.describe_obstacle()
    require(obstacle is None, f"no images: {obstacle}")
    with builder.Builder(tmp_path / "build") as running:
        yield running


def test_images_chart_and_wheel_are_where_they_were_pushed(
    helm: Helm, registry: str, building: builder.Builder, tmp_path: Path
) -> None:
    building.write_configuration(tmp_path / "storage.conf")
    program = binaries.find("helm")
    environment = clean_environment() | {
        "CONTAINERS_STORAGE_CONF": str(tmp_path / "storage.conf"),
        "HOME": str(tmp_path),
        "UV_PUBLISH_TOKEN": "secret",
    }
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    options = [f"--build-option={flag}" for flag in building.flags]
    with open_index() as index:
        flags = [f"--registry={registry}", f"--base={building.base}", "--builder=buildah", "--insecure"]
        done = subprocess.run(
            [sys.executable, ROOT / "tools/publish.py", *flags, f"--index={index.url}", *options],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stderr
    scheduler, node, chart, wheel, _, command = done.stdout.splitlines()
    assert wheel == f"gpuloom-0.1.0-py3-none-any.whl in {index.url}"
    (upload,) = index.uploads
    assert b"gpuloom/engine/state/card_table.py" in upload
    for name in (scheduler, node, chart):
        repository, digest = re.fullmatch(rf"{registry}/([\w/]+)@(sha256:\w+)", name, re.ASCII).groups()  # type: ignore[union-attr]
        by_tag, by_digest = (fetch_config(registry, repository, reference) for reference in ("0.1.0", digest))
        assert by_tag == by_digest
    words = command.split()
    words.remove("--create-namespace")
    template = [str(program), "template", *words[2:4], "--plain-http", "--kube-version=v1.34.0", *words[4:]]
    made = subprocess.run(template, capture_output=True, text=True, env=environment, check=False)
    assert made.returncode == 0, made.stderr
    assert f"image: {registry}/gpuloom/scheduler:0.1.0" in made.stdout
