"""The checked-in gRPC code is what its proto gives."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_generating_the_grpc_code_again_changes_nothing(tmp_path):
    generator = runpy.run_path(str(ROOT / "tools" / "grpc" / "generate.py"))
    generator["generate"](tmp_path)
    written = {name: (tmp_path / name).read_text() for name in generator["GENERATED"]}
    assert written == {name: (ROOT / "src" / name).read_text() for name in written}
