"""nsbox for deepagents: a backend whose commands and files are in a box.

    from deepagents import create_deep_agent
    from nsbox.deepagents import NsboxSandbox

    with NsboxSandbox(memory="2G", ro=["data"]) as backend:
        agent = create_deep_agent(model=..., backend=backend)

The box stays until close(): files, and what commands leave running, are kept between calls. Options
are those of nsbox.Sandbox; `timeout` among them is the life of the box, `command_timeout` that of
a command. Works in any thread and event loop.
"""

from __future__ import annotations

import errno
import itertools
import os
from typing import Any

from deepagents.backends.protocol import (ExecuteResponse, FileDownloadResponse,
                                          FileUploadResponse)
from deepagents.backends.sandbox import BaseSandbox

from ._stay import CommandError, CommandTimeoutError, Stay
from .errors import NsboxError

__all__ = ["NsboxSandbox"]

_TIMED_OUT = 124                # as timeout(1) says it, and other backends
_names = itertools.count(1)
_WORDS = {errno.ENOENT: "file_not_found", errno.EACCES: "permission_denied",
          errno.EPERM: "permission_denied", errno.EROFS: "permission_denied",
          errno.EISDIR: "is_directory", errno.ENOTDIR: "invalid_path",
          errno.EINVAL: "invalid_path", errno.ENAMETOOLONG: "invalid_path",
          errno.ELOOP: "invalid_path"}


def _word(error: OSError) -> str:
    return _WORDS.get(error.errno or 0, str(error))


class NsboxSandbox(BaseSandbox):
    """One box. Opens itself at first use.

    @command_timeout: seconds for a command without one of its own; 0: none.
    @max_output: bytes kept of what a command prints; the rest is dropped (`truncated`).
    @max_download: bytes of a file that may be fetched.
    """

    def __init__(self, *, command_timeout: int = 1800, max_output: int = 1 << 20,
                 max_download: int = 100 << 20, **options: Any) -> None:
        self._stay = Stay(**options)
        self._timeout, self._output, self._download = command_timeout, max_output, max_download
        self._id = f"nsbox-{os.getpid()}-{next(_names)}"

    @property
    def id(self) -> str:
        return self._id

    def __enter__(self) -> "NsboxSandbox":
        self._stay.call(self._stay.inner.open())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all that runs in the box; its files are gone. May be called again."""
        self._stay.close()

    # --- commands ------------------------------------------------------------------
    async def _run(self, command: str, timeout: int | None) -> ExecuteResponse:
        seconds = self._timeout if timeout is None else timeout
        try:
            done = await self._stay.inner.exec(
                ["/bin/sh", "-c", command], timeout=seconds or None, room=self._output,
                merged=True)
        except CommandTimeoutError as e:
            text = e.finished.stdout.decode("utf-8", "replace")
            text += "\n" if text and not text.endswith("\n") else ""
            return ExecuteResponse(f"{text}Error: the command was killed after {seconds} s",
                                   exit_code=_TIMED_OUT, truncated=e.finished.truncated)
        except (CommandError, PermissionError) as e:
            return ExecuteResponse(f"Error: {e.strerror}", exit_code=126)
        return ExecuteResponse(done.stdout.decode("utf-8", "replace"), exit_code=done.code,
                               truncated=done.truncated)

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return self._stay.call(self._run(command, timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return await self._stay.on_loop(self._run(command, timeout))

    # --- files -----------------------------------------------------------------------
    async def _upload(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=await self._put(path, data))
                for path, data in files]

    async def _put(self, path: str, data: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            await self._stay.inner.write(path, data)
        except NsboxError:
            raise       # the box is gone, which is no trouble of this file
        except OSError as e:
            return _word(e)
        return None

    async def _fetch(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        try:
            return FileDownloadResponse(
                path=path, content=await self._stay.inner.read(path, self._download))
        except NsboxError:
            raise
        except OSError as e:
            return FileDownloadResponse(path=path, error=_word(e))

    async def _fetch_all(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [await self._fetch(path) for path in paths]

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return self._stay.call(self._upload(files))

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return await self._stay.on_loop(self._upload(files))

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return self._stay.call(self._fetch_all(paths))

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return await self._stay.on_loop(self._fetch_all(paths))
