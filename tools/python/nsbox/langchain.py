"""nsbox for LangChain: a shell tool whose shell is in a box, and a tool that runs code in boxes.

    from langchain.agents import create_agent
    from langchain.agents.middleware import ShellToolMiddleware
    from nsbox.langchain import NsboxExecutionPolicy, code_tool

    shell = ShellToolMiddleware(workspace_root="work",
                                execution_policy=NsboxExecutionPolicy(options={"memory": "2G"}))
    agent = create_agent(model=..., tools=[code_tool()], middleware=[shell])

For deepagents' sandbox backends, which LangChain's SandboxIntegrationTests are about, NsboxSandbox
of nsbox.deepagents is found here as well.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

from langchain.agents.middleware.shell_tool import BaseExecutionPolicy
from langchain_core.tools import StructuredTool

from . import sandbox
from ._binary import find_binary
from ._options import request_fields
from .errors import UsageError
from .result import Result

__all__ = ["NsboxExecutionPolicy", "NsboxSandbox", "code_tool"]

# For a shell that stays; what the caller sets wins.
_SHELL: dict[str, Any] = {"timeout": 86400, "memory": "1G", "pids": 512, "output_limit": "1G"}


def __getattr__(name: str) -> Any:
    if name == "NsboxSandbox":
        from .deepagents import NsboxSandbox
        return NsboxSandbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Options as flags of `nsbox run`."""
    fields = request_fields(options)
    flags: list[str] = []
    if "profile" in fields:
        flags += ["--policy", fields.pop("profile")]
    for key, value in fields.pop("set", {}).items():
        for one in [value] if isinstance(value, str) else value:
            flags += ["--set", f"{key}={one}"]
    fields.pop("env", None)     # spawn() hands it over
    if fields:
        raise UsageError(f"a shell has no option {sorted(fields)[0]!r}")
    return flags


def _env_file(env: Mapping[str, str]) -> int:
    """A file in memory with @env, one a line: a command line is for all eyes of the machine."""
    for name, value in env.items():
        if "\n" in value:
            raise UsageError(f"the value of {name} has more than one line")
    fd = os.memfd_create("env")
    with open(fd, "w", encoding="utf-8", closefd=False) as file:
        file.writelines(f"{name}={value}\n" for name, value in env.items())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@dataclass
class NsboxExecutionPolicy(BaseExecutionPolicy):
    """Runs ShellToolMiddleware's shell in a box that sees the workspace and nothing else of yours.

    @options: of the box, as nsbox.Sandbox has them; without `timeout` it lives for a day.
    The workspace is at its own path in the box, and writable. The shell ends with its box.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    binary: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _flags(self.options)    # a wrong option is told here, not at the first command

    def spawn(self, *, workspace: Path, env: Mapping[str, str],
              command: Sequence[str]) -> "subprocess.Popen[str]":
        place = str(Path(workspace).resolve())
        argv = [self.binary or find_binary(), "run", "--stdin",
                *_flags({**_SHELL, **self.options}), "--rw", place, "--workdir", place]
        fd = _env_file({**(self.options.get("env") or {}), **env})
        try:
            argv += ["--env-file", f"/proc/self/fd/{fd}", "--", *command]
            return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, encoding="utf-8",
                                    errors="replace", bufsize=1, pass_fds=(fd,),
                                    start_new_session=True)
        finally:
            os.close(fd)


def _told(result: Result) -> str:
    """What a model is told of a run."""
    parts = [result.stdout]
    if result.stderr:
        parts.append(f"[stderr]\n{result.stderr}")
    if not result.success:
        parts.append(f"[{result.reason or f'{result.verdict}, exit code {result.exit_code}'}]")
    return "\n".join(part.rstrip("\n") for part in parts if part) or "(no output)"


def code_tool(language: str = "python", name: str | None = None, **options: Any) -> StructuredTool:
    """A tool that runs source text, each time in a fresh box. Options as for nsbox.Sandbox.

    The Result is the message's artifact.
    """
    request_fields(options)

    def run(code: str) -> tuple[str, Result]:
        result = sandbox().code(code, language, **options)
        return _told(result), result

    return StructuredTool.from_function(
        run, name=name or f"run_{language}", response_format="content_and_artifact",
        description=f"Runs {language} code in a fresh sandbox and returns what it prints. "
                    "Nothing is kept between calls.")
