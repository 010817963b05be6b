"""Folders on the host: a private one that goes with its last user, and what a run left in one.

Nothing here follows a symbolic link that code in a box may have made.
"""

from __future__ import annotations

import mimetypes
import os
import shutil
import stat
import tempfile
import weakref
from pathlib import Path
from typing import Any

from .shapes import Artifact

MAX_FILES = 64
MAX_BYTES = 32 << 20
MAX_DEPTH = 8
MAX_LOOKED_AT = 100_000     # entries of a working directory; what code makes may be more
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
Stamp = tuple[int, int, int, int]


class PrivateFolder:
    """A folder of mode 0700, removed when nobody refers to this object any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="nsbox-"))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def keep_with(result: Any, folder: PrivateFolder) -> None:
    """The files of @folder live as long as @result, which names them."""
    result._nsbox_folder = folder


def _remove(path: Path, owner: int) -> None:
    """A forked process has the same finalizers, and the folder is not its own."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def _walk(folder: int, prefix: str, depth: int, found: dict[str, Stamp]) -> None:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if len(found) >= MAX_LOOKED_AT:
                return
            about = entry.stat(follow_symlinks=False)
            name = prefix + entry.name
            if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
                found[name] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            elif stat.S_ISDIR(about.st_mode) and depth < MAX_DEPTH:
                fd = os.open(entry.name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
                try:
                    _walk(fd, name + "/", depth + 1, found)
                finally:
                    os.close(fd)


def snapshot(folder: str) -> dict[str, Stamp]:
    """Regular files with one link below @folder, by relative path. Empty when it is missing."""
    found: dict[str, Stamp] = {}
    try:
        fd = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return found
    try:
        _walk(fd, "", 1, found)
    finally:
        os.close(fd)
    return found


def _wanted(name: str, paths: list[str]) -> bool:
    return not paths or any(p in (".", name) or name.startswith(p.rstrip("/") + "/")
                            for p in paths)


def changed(folder: str, before: dict[str, Stamp], paths: list[str]) -> list[Artifact]:
    """Artifacts for what is new or other than @before, within the caps."""
    found: list[Artifact] = []
    room = MAX_BYTES
    for name, stamp in sorted(snapshot(folder).items()):
        size = stamp[1]
        if before.get(name) == stamp or not _wanted(name, paths) or size > room:
            continue
        if len(found) == MAX_FILES:
            break
        room -= size
        found.append(artifact_of(Path(folder) / name, size))
    return found


def artifact_of(path: Path, size: int | None) -> Artifact:
    """mellea guesses the type by the name, and so do we."""
    return Artifact(path=path, size_bytes=size, content_type=mimetypes.guess_type(str(path))[0])


def _open_below(root: str, name: str, flags: int) -> int:
    """The descriptor of @name below @root, no component of which may be a link."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise ValueError(f"{name!r} is not a path below the work folder")
    fd = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        # O_NONBLOCK: a pipe must not make this wait for its other end.
        return os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644,
                       dir_fd=fd)
    finally:
        os.close(fd)


def _regular(fd: int, name: str) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ValueError(f"{name!r} is no regular file")


def copy_from(root: str, name: str, to: Path) -> None:
    """Copy the regular file @name below @root to the host's @to."""
    source = _open_below(root, name, os.O_RDONLY)
    _regular(source, name)
    with os.fdopen(source, "rb") as data, open(to, "wb") as out:
        shutil.copyfileobj(data, out)


def copy_to(root: str, name: str, source: Path) -> None:
    """Copy the host's @source to @name below @root, new or in place of a regular file."""
    target = _open_below(root, name, os.O_WRONLY | os.O_CREAT)
    _regular(target, name)
    with open(source, "rb") as data, os.fdopen(target, "wb") as out:
        out.truncate(0)
        shutil.copyfileobj(data, out)
