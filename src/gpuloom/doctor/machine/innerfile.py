"""Files of a process in a container, read by its paths and never outside of its root directory.

Whoever works in a container may put links, pipes and devices there, and exchange them at any time. So every part of a
path is opened by itself, as what it is; links are followed by hand and count from the container's root, also upwards;
and only a regular file that was opened so is read.
"""

import errno
import os
import stat
from collections import deque
from contextlib import ExitStack
from pathlib import Path, PosixPath, PurePosixPath
from typing import Self

_MOST_LINKS = 40
_LARGEST_FILE_BYTES = 4 * 2**20
"""A ConfigMap has at most 1 MiB."""


class InnerFile(PosixPath):
    """A file below the root directory of another process; ``read_bytes`` gives no other one."""

    top: Path
    inner: PurePosixPath

    @classmethod
    def below(cls, root: Path, inner: Path) -> Self:
        """Make the path that this process has to take; relative ones are taken from the root."""
        file = cls(root, str(inner).lstrip("/"))
        file.top, file.inner = root, PurePosixPath(inner)
        return file

    def read_bytes(self) -> bytes:
        """Return what is in it.

        Raises OSError, also where it is no regular file, or a larger one than a configuration is.
        """
        with ExitStack() as stack:
            found = _walk(stack, self.top, self.inner)
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise OSError(errno.EINVAL, "is no regular file", str(self))
            # Whoever holds a lease on the file is not waited for.
            descriptor = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                text = file.read(_LARGEST_FILE_BYTES + 1)
        if len(text) > _LARGEST_FILE_BYTES:
            raise OSError(errno.EFBIG, f"has more than {_LARGEST_FILE_BYTES} bytes", str(self))
        return text


def _walk(stack: ExitStack, root: Path, inner: PurePosixPath) -> int:
    """Return a descriptor of what a path names, not opened for reading; the stack closes it."""
    found = _look(stack, str(root), None)
    above, parts, links = [found], deque(inner.parts), 0
    while parts:
        part = parts.popleft()
        if part.startswith("/"):
            del above[1:]
        elif part == "..":
            del above[max(1, len(above) - 1) :]
        else:
            found = _look(stack, part, above[-1])
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                above.append(found)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(inner))
            parts.extendleft(reversed(PurePosixPath(os.readlink("", dir_fd=found)).parts))
    return above[-1]


def _look(stack: ExitStack, part: str, folder: int | None) -> int:
    # Only the root is a link that may be followed: /proc/PID/root is one that the kernel makes.
    how = os.O_PATH | os.O_CLOEXEC | (os.O_DIRECTORY if folder is None else os.O_NOFOLLOW)
    descriptor = os.open(part, how, dir_fd=folder)
    stack.callback(os.close, descriptor)
    return descriptor
