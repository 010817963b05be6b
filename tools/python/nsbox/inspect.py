"""nsbox for Inspect AI: `sandbox="nsbox"` in a Task or Sample.

    import nsbox.inspect                    # or `pip install nsbox`: found by its entry point
    Task(..., sandbox="nsbox")
    Task(..., sandbox=("nsbox", "policy.json"))         # a file with a policy, or a profile's name
    Task(..., sandbox=SandboxEnvironmentSpec("nsbox", NsboxConfig(memory="2G", net="open")))

Each sample has a box of its own, which stays until the sample ends: files, and what commands leave
running, are kept between calls, and commands run side by side. All of it is gone at the end.

Commands run as the box's one user, `nsbox` (uid 1000, no privileges); asking for another raises
SandboxUserUnsupportedError. A command that timed out is not run again (`timeout_retry`), since it
may have done half of its work. Needs asyncio, Inspect's default.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any, Literal, overload

from inspect_ai.util import (ExecResult, OutputLimitExceededError, SandboxEnvironment,
                             SandboxEnvironmentConfigType, SandboxEnvironmentLimits,
                             SandboxUserUnsupportedError, concurrency as throttle, sandboxenv)
from inspect_ai.util import _sandbox as _upstream
from pydantic import BaseModel, ConfigDict

from ._stay import CommandError, FileTooLargeError, OutputTooLongError, Stay, bytes_of
from .errors import NsboxError, UsageError

__all__ = ["NsboxConfig", "NsboxSandboxEnvironment"]

USERS = ("nsbox", "1000")       # the box's user, by name and by number
_NOT_STARTED = 126              # as a shell says it; 127 for a command that is not there


class NsboxConfig(BaseModel, frozen=True):
    """Options of the box, as nsbox.Sandbox has them: memory="2G", net="open", ro=["data"], ..."""

    model_config = ConfigDict(extra="allow")

    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _options(config: SandboxEnvironmentConfigType | None) -> dict[str, Any]:
    if config is None:
        return {}
    if isinstance(config, NsboxConfig):
        return config.options()
    if not isinstance(config, str):
        raise UsageError(f"sandbox config of type {type(config).__name__}",
                         hint="use NsboxConfig, a file with a policy, or a profile's name")
    if not os.path.isfile(config):
        return {"profile": config}
    with open(config, encoding="utf-8") as file:
        policy = json.load(file)
    if not isinstance(policy, dict):
        raise UsageError(f"{config}: a policy is a JSON object")
    return {"policy": policy}


def _unavailable(error: NsboxError) -> Exception:
    """Inspect's word for a sandbox that is gone; it is younger than the rest of the interface."""
    kind = getattr(_upstream.environment, "SandboxUnavailableError", None)
    return error if kind is None else kind(str(error))


@sandboxenv(name="nsbox")
class NsboxSandboxEnvironment(SandboxEnvironment):
    """One box. Made by sample_init()."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._stay = Stay(**options)

    @classmethod
    def default_concurrency(cls) -> int | None:
        return 2 * (os.cpu_count() or 1)

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return NsboxConfig(**config)

    @classmethod
    async def sample_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None,
                          metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        environment = cls(**_options(config))
        await environment._stay.on_loop(environment._stay.inner.open())
        return {"default": environment}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: SandboxEnvironmentConfigType | None,
                             environments: dict[str, SandboxEnvironment],
                             interrupted: bool) -> None:
        stays = [env._stay for env in environments.values()
                 if isinstance(env, NsboxSandboxEnvironment)]
        # Cancelled or not, each box ends.
        await asyncio.shield(asyncio.gather(*(s.on_loop(s.inner.close()) for s in stays)))

    async def exec(self, cmd: list[str], input: str | bytes | None = None, cwd: str | None = None,
                   env: dict[str, str] | None = None, user: str | None = None,
                   timeout: int | None = None, timeout_retry: bool = True,
                   concurrency: bool = True) -> ExecResult[str]:
        if user is not None and user not in USERS:
            raise SandboxUserUnsupportedError(
                f"a box has one user, {USERS[0]} (uid {USERS[1]}): it cannot execute as {user!r}")
        if concurrency:
            async with throttle("nsbox", 4 * (os.cpu_count() or 1), visible=False):
                return await self._exec(cmd, input, cwd, env, timeout)
        return await self._exec(cmd, input, cwd, env, timeout)

    async def _exec(self, cmd: list[str], input: str | bytes | None, cwd: str | None,
                    env: dict[str, str] | None, timeout: int | None) -> ExecResult[str]:
        limits = SandboxEnvironmentLimits
        room, room_text = limits.MAX_EXEC_OUTPUT_SIZE, limits.MAX_EXEC_OUTPUT_SIZE_STR
        data = bytes_of(input) if isinstance(input, str) else input
        try:
            done = await self._stay.on_loop(self._stay.inner.exec(
                cmd, input=data, cwd=cwd or "", env=env, timeout=timeout, room=room, strict=True))
        except CommandError as e:
            code = 127 if isinstance(OSError(e.errno, ""), FileNotFoundError) else _NOT_STARTED
            return ExecResult(False, code, "", f"nsbox: {e.filename}: {e.strerror}\n")
        except OutputTooLongError as e:
            begin = e.finished.stdout or e.finished.stderr
            raise OutputLimitExceededError(room_text, begin.decode("utf-8", "replace")) from None
        except UsageError:
            raise
        except NsboxError as e:
            raise _unavailable(e) from e
        return ExecResult(done.code == 0, done.code, done.stdout.decode("utf-8", "replace"),
                          done.stderr.decode("utf-8", "replace"))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = bytes_of(contents) if isinstance(contents, str) else contents
        try:
            await self._stay.on_loop(self._stay.inner.write(file, data))
        except NsboxError as e:
            raise _unavailable(e) from e

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limits = SandboxEnvironmentLimits
        room, room_text = limits.MAX_READ_FILE_SIZE, limits.MAX_READ_FILE_SIZE_STR
        try:
            data = await self._stay.on_loop(self._stay.inner.read(file, room))
        except FileTooLargeError:
            raise OutputLimitExceededError(room_text, None) from None
        except NsboxError as e:
            raise _unavailable(e) from e
        return data.decode("utf-8") if text else data

    def default_polling_interval(self) -> float:
        return 0.2
