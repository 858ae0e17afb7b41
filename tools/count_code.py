"""Count lines of code without docstrings, comments and blank lines: ``python tools/count_code.py FOLDER...``."""

import ast
import io
import sys
import tokenize
from pathlib import Path

_NOTHING = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def count_code(text: str) -> int:
    """Return how many lines of a module have code on them; a string that stands alone is documentation."""
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documentation.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOTHING:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documentation)


def main() -> None:
    """Print the count of every folder."""
    for folder in map(Path, sys.argv[1:] or ["src/gpuloom"]):
        files = [file for file in folder.rglob("*.py") if not file.name.endswith(("_pb2.py", "_pb2_grpc.py"))]
        print(f"{sum(count_code(file.read_text()) for file in files):>7,} {folder} ({len(files)} files)")


if __name__ == "__main__":
    main()
