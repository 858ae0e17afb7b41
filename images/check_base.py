"""Refuses a base image that is named by a tag alone: tomorrow the same tag may be another image.

Usage: python3 check_base.py BASE ALLOW_TAG. Images that were never pushed to a registry have no digest there: for them
ALLOW_TAG is 1, and whoever builds answers for what the tag is.
"""

import re
import sys

_BY_DIGEST = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_REFUSED = """\
The base image {base!r} is not named by its digest, so nobody can tell which one it is.
Name it as NAME:TAG@sha256:...: `docker buildx imagetools inspect NAME:TAG` shows the digest, and a pull prints it.
For a base of your own that is in no registry, build with --build-arg ALLOW_TAG=1."""


def find_fault(base: str, allow_tag: str) -> str:
    """Say what is wrong with the name of a base image, nothing where it is right."""
    if allow_tag == "1" or _BY_DIGEST.fullmatch(base):
        return ""
    return _REFUSED.format(base=base)


if __name__ == "__main__":
    sys.exit(find_fault(*sys.argv[1:]) or None)
