"""What people and their programs hand in: manifests for `fits`, and the files of administrators."""

import contextlib
import io
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import yaml
from fuzz.scheduler import Stage
from fuzz.seeds import TESTS, dump, read_lines
from fuzz.target import Target

from gpuloom.cli.asking.manifests import read_manifests
from gpuloom.cli.outcomes import CommandError
from gpuloom.serving.frames import HEAD, READ, Verb, pack, unpack_head
from gpuloom.serving.reader import serve
from gpuloom.vendors.catalog import load_shipped
from gpuloom.vendors.device_config import apply_device_config
from gpuloom.vendors.profile import ProfileError
from gpuloom.web.views.explaining import PodError, fit_pod
from gpuloom.web.views.source import EVERYTHING, Source
from gpuloom.wire.errors import WireError
from gpuloom.wire.node_config import decode_node_config

_EXAMPLE = TESTS.parent / "docs/examples/notebook.yaml"
_TAGS = b"a: !!int 1\nb: !!binary aGk=\nc: !!timestamp 2026-01-01\nd: !!set {x, y}\n? [1, 2]\n: 3\n1.5: .nan\n"


def _read_fits_api(data: bytes) -> None:
    """Ask as the API is asked, with a pod in JSON."""
    with contextlib.suppress(PodError):
        for _ in fit_pod(Source(Stage().parts), EVERYTHING, data, "team"):
            pass


def _read_fits_form(data: bytes) -> None:
    """Ask as the form of the pages is asked, with a manifest in YAML."""
    answers = io.BytesIO()
    serve(io.BytesIO(pack(Verb.MANIFEST, data)), answers)
    status, _ = unpack_head(answers.getvalue()[: HEAD.size])
    if status == READ:
        _read_fits_api(answers.getvalue()[HEAD.size :])


def _read_manifest_file(data: bytes) -> None:
    path = _find_file()
    path.write_bytes(data)
    with contextlib.suppress(CommandError):
        read_manifests(str(path))


def _read_device_config(data: bytes) -> None:
    with contextlib.suppress(ProfileError):
        apply_device_config(load_shipped(), data, "device-config.yaml")


def _read_node_config(data: bytes) -> None:
    with contextlib.suppress(WireError):
        decode_node_config(data, "a")


@lru_cache(1)
def _make_directory() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory()


def _find_file() -> Path:
    return Path(_make_directory().name) / "manifest.yaml"


def _list_pods() -> list[dict[str, Any]]:
    return [line["args"]["Pod"] for line in read_lines() if line["type"] == "FILTER" and line["args"].get("Pod")]


def _give_pods() -> Iterator[bytes]:
    yield from map(dump, _list_pods())


def _give_manifests() -> Iterator[bytes]:
    yield _EXAMPLE.read_bytes()
    yield _TAGS
    for pod in _list_pods()[::4]:
        yield yaml.safe_dump({"kind": "Pod", **pod}).encode()
        template = {"kind": "Deployment", "spec": {"replicas": 3, "template": pod}}
        yield yaml.safe_dump({"kind": "List", "items": [template]}).encode()


def _give_device_configs() -> Iterator[bytes]:
    content = msgspec.json.decode((TESTS / "data/device-config.default.json").read_bytes())
    yield yaml.safe_dump(content).encode()
    for name, section in content.items():
        yield yaml.safe_dump({name: section}).encode()


def _give_node_configs() -> Iterator[bytes]:
    yield dump(
        {"nodeconfig": [{"name": "a", "devicesplitcount": 5, "filterdevices": {"uuid": ["GPU-1"], "index": [0]}}]}
    )
    yield dump({"nodeconfig": [{"name": "b"}, {"name": "a", "devicememoryscaling": 1.5, "operatingmode": "mig"}]})


TARGETS = (
    Target("fits-api", _read_fits_api, "json", _give_pods, us_per_byte=100.0),
    Target("fits-form", _read_fits_form, "yaml", _give_manifests, us_per_byte=200.0),
    Target("manifests", _read_manifest_file, "yaml", _give_manifests, us_per_byte=200.0),
    Target("device-config", _read_device_config, "yaml", _give_device_configs, us_per_byte=200.0),
    Target("node-config", _read_node_config, "json", _give_node_configs),
)
