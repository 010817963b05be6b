"""mellea's execution environments, each a box (or a plain process on `local_unsafe`) a run.

`local` works in a private folder that is gone after the run, or in `working_directory`, which is
shown writable. Nothing else of the host is seen but the system, the interpreter and the roots of
the policy. No call raises for what the code did; what nsbox refused is a skipped result.
"""

from __future__ import annotations

import ast
import os
import shutil
import stat
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from pathlib import Path, PurePosixPath
from typing import Any

from .._sandbox import Sandbox
from ..errors import NsboxError, UnsupportedError
from ..result import Analysis, Result
from . import folders, policy as policies
from .policy import DOCKER_POLICY, LOCAL_POLICY, TIERS, ExecutionTier, WORK_FOLDER
from .shapes import Artifact, ExecutionResult
from .text import as_mellea

PARSE_FAILED = "Parse failed."
TIMED_OUT = "Execution timed out."
PARSED = ("The code parses; the tree is in analysis_result. The static tier runs nothing: use "
          "another tier for that.")
NO_ENGINE = ("the docker tiers are not built yet; use tier='local', which isolates without "
             "Docker")


class EngineMissingError(UnsupportedError, ImportError):
    """A docker tier was asked for, and there is no engine (an ImportError, as mellea has it)."""


_lock = threading.Lock()
_sandbox: Sandbox | None = None
_environ: dict[str, str] = {}


def _forget() -> None:
    global _lock, _sandbox
    _lock, _sandbox = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def sandbox() -> Sandbox:
    """The connection of this module. Made anew when the caller's environment changed, because
    what a box may inherit is that of the `nsbox rpc` process."""
    global _sandbox, _environ
    with _lock:
        if _sandbox is None or _sandbox.lost or _environ != dict(os.environ):
            # The old one may still have runs of other threads: it goes with its last user.
            _sandbox, _environ = Sandbox(), dict(os.environ)
        return _sandbox


# --- what a record says, in mellea's words -----------------------------------
def _sentence(reason: str | None) -> str:
    """A reason is a short word, a colon and a sentence."""
    word, colon, rest = (reason or "").partition(": ")
    return rest if colon else word


def _syntax_error(analysis: Analysis | None, reason: str | None) -> SyntaxError:
    problem = analysis.error if analysis is not None else None
    if problem is None:
        return SyntaxError(_sentence(reason))
    return SyntaxError(problem.message, ("<unknown>", problem.line, problem.column, problem.text,
                                         problem.end_line, problem.end_column))


def _tree(code: str, analysis: Analysis | None) -> Any:
    """The tree as mellea has it. Parsed here only after the box's parser, which is of the same
    interpreter, took the same source; a tree that is too large to be sent is not built."""
    if analysis is None or analysis.ast_truncated:
        return analysis
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return analysis


def _skipped(mode: str, message: str, **more: Any) -> ExecutionResult:
    return ExecutionResult(success=False, stdout=None, stderr=None, skipped=True,
                           skip_message=message, execution_mode=mode, **more)


def _refused(mode: str, result: Result) -> ExecutionResult:
    """What was refused before it ran: imports, source, packages."""
    word = (result.reason or "").partition(":")[0]
    if word == "parse_failed":
        return _skipped(mode, PARSE_FAILED,
                        analysis_result=_syntax_error(result.analysis, result.reason))
    return _skipped(mode, _sentence(result.reason))


def _failed(mode: str, error: Exception) -> ExecutionResult:
    return _skipped(mode, f"nsbox could not run the code: {error}")


class ExecutionEnvironment(ABC):
    """Runs code. `allowed_imports`: modules that may be imported; None: any, []: none."""

    def __init__(self, allowed_imports: list[str] | None = None, policy: Any = None,
                 working_directory: str | None = None) -> None:
        self.allowed_imports = allowed_imports
        self.policy = policy
        self.working_directory = working_directory

    @abstractmethod
    def execute(self, code: str, timeout: int | None = None) -> ExecutionResult:
        """Run @code for at most @timeout seconds (None: the policy's, else the tier's)."""

    def _resolve_timeout(self, timeout: int | None, default: int = policies.TIMEOUT) -> float:
        if timeout is not None:
            return timeout
        return self.policy.timeout if self.policy is not None else default

    def _check(self, code: str) -> Result:
        return sandbox().check(code, allow_imports=self.allowed_imports,
                               interpreter=sys.executable or None)

    def copy_in(self, host_path: Path, container_path: str) -> None:
        """Show a copy of a host file to later runs. NotImplementedError where that cannot be."""
        raise NotImplementedError(f"{type(self).__name__} has no copy_in: use tier='local' or "
                                  "tier='docker'")

    def copy_out(self, container_path: str, host_path: Path) -> None:
        """Copy a file of the last run to the host. NotImplementedError where that cannot be."""
        raise NotImplementedError(f"{type(self).__name__} has no copy_out: use tier='local' or "
                                  "tier='docker'")


class StaticAnalysisEnvironment(ExecutionEnvironment):
    """Parses and checks imports; runs nothing."""

    def execute(self, code: str, timeout: int | None = None) -> ExecutionResult:
        try:
            result = self._check(code)
        except NsboxError as e:
            return _failed("static", e)
        if not result.success:
            return _refused("static", result)
        return ExecutionResult(success=True, stdout=None, stderr=None, skipped=True,
                               skip_message=PARSED, execution_mode="static",
                               analysis_result=_tree(code, result.analysis))


class UnsafeEnvironment(ExecutionEnvironment):
    """The tiers `local_unsafe` (a plain process) and `local` (a box); mellea has one class."""

    def __init__(self, allowed_imports: list[str] | None = None, policy: Any = None,
                 working_directory: str | None = None,
                 installed_packages: set[str] | None = None,
                 failed_packages: set[str] | None = None, tier: str | None = None) -> None:
        super().__init__(allowed_imports, policy, working_directory)
        self._installed_packages = installed_packages if installed_packages is not None else set()
        self._failed_packages = failed_packages if failed_packages is not None else set()
        self._tier = tier
        self._extra_env: dict[str, str] = {}
        self._copies: folders.PrivateFolder | None = None
        self._binds: list[str] = []
        self._copied = 0
        self._last: folders.PrivateFolder | None = None
        if policy is not None:
            policies.check_packages(policy.packages)
            policies.export_paths(policy, working_directory)

    def _mode(self) -> str:
        return self._tier or ("local" if self.policy is not None else "local_unsafe")

    @property
    def _boxed(self) -> bool:
        return self._mode() == "local"

    # --- one run ----------------------------------------------------------------
    def execute(self, code: str, timeout: int | None = None) -> ExecutionResult:
        limit = self._resolve_timeout(timeout)
        if limit <= 0:
            return _skipped(self._mode(), TIMED_OUT, timed_out=True,
                            working_directory=self.working_directory)
        out = folders.PrivateFolder() if self._boxed and not self.working_directory else None
        before = folders.snapshot(self.working_directory) if self.working_directory else {}
        try:
            result = sandbox().code(code, **self._options(limit, out))
        except NsboxError as e:
            return self._refused_here(e)
        if result.skipped:
            self._note_packages(result.reason)
            return _refused(self._mode(), result)
        self._note_packages(None)
        self._last = out
        shaped = self._shaped(result)
        if shaped.success:
            shaped.artifacts = self._artifacts(result, before)
        if shaped.artifacts and out is not None:
            folders.keep_with(shaped, out)
        return shaped

    def _options(self, limit: float, out: folders.PrivateFolder | None) -> dict[str, Any]:
        if self._boxed:
            options = policies.local_options(self.policy or LOCAL_POLICY, limit)
            options["ro"] = options["ro"] + self._binds
            if out is not None:
                options.update(artifacts=out.path, artifacts_collect="always",
                               artifacts_paths=policies.export_paths(self.policy, None))
        else:
            options = {"timeout": limit, "inherit_env": True,
                       "limits_stdout": policies.kept_bytes(self._kept("stdout")),
                       "limits_stderr": policies.kept_bytes(self._kept("stderr")),
                       "cwd": self.working_directory or os.getcwd()}
        if self._boxed and self.working_directory:
            place = os.path.abspath(self.working_directory)
            options["cwd"] = place
            options["rw" if policies.may_write(self.policy, place) else "ro"].append(place)
        options.update(tier=self._mode(), interpreter=sys.executable or None,
                       allow_imports=self.allowed_imports, env=self._extra_env)
        if self.policy is not None and self.policy.packages:
            options["packages"] = self.policy.packages
        return options

    def _note_packages(self, reason: str | None) -> None:
        """Keep the caller's two sets as mellea does; they decide nothing here."""
        named = set(self.policy.packages) if self.policy is not None else set()
        if reason is None:
            self._installed_packages |= named
            self._failed_packages -= named
        elif reason.startswith("packages_failed"):
            self._failed_packages |= named

    def _refused_here(self, error: NsboxError) -> ExecutionResult:
        return _failed(self._mode(), error)

    def _streams(self, result: Result) -> tuple[str, str]:
        out = as_mellea(result.stdout_raw, result.stdout_bytes or 0,
                        bool(result.stdout_truncated), self._kept("stdout"))
        err = as_mellea(result.stderr_raw, result.stderr_bytes or 0,
                        bool(result.stderr_truncated), self._kept("stderr"))
        return out, err

    def _kept(self, stream: str) -> int | None:
        return getattr(self.policy, f"{stream}_max_bytes", None)

    def _shaped(self, result: Result) -> ExecutionResult:
        out, err = self._streams(result)
        shaped = ExecutionResult(success=result.success, stdout=out, stderr=err,
                                 exit_code=result.returncode, execution_mode=self._mode(),
                                 working_directory=self.working_directory)
        if result.timed_out:
            # Ours: what it printed until then is kept.
            shaped.skipped = shaped.timed_out = True
            shaped.skip_message, shaped.exit_code = TIMED_OUT, None
        elif result.verdict not in ("exited", "signaled"):
            # A limit: the model that reads stderr should know which.
            why = f"nsbox: {result.verdict}: {_sentence(result.reason)}"
            shaped.stderr = f"{err}\n{why}" if err else why
        return shaped

    def _artifacts(self, result: Result, before: dict[str, Any]) -> list[Artifact]:
        if self.working_directory:
            paths = policies.export_paths(self.policy, self.working_directory)
            return folders.changed(self.working_directory, before, paths)
        return [folders.artifact_of(a.host_path, a.size_bytes)
                for a in sorted(result.artifacts, key=lambda a: a.path) if a.host_path is not None]

    # --- files in and out ---------------------------------------------------------
    def copy_in(self, host_path: Path, container_path: str) -> None:
        """A copy of the regular file @host_path for later runs, at @container_path (relative: in
        the working directory, which is written to if there is one; elsewhere the copy cannot be
        changed by them)."""
        if not self._boxed:
            super().copy_in(host_path, container_path)
        if not stat.S_ISREG(os.stat(host_path).st_mode):
            raise ValueError(f"{host_path} is no regular file")
        base = PurePosixPath(self.working_directory or WORK_FOLDER)
        place = base / container_path
        if ".." in place.parts or ":" in str(place):
            raise ValueError(f"{container_path!r} cannot be a place in the box: it has '..' or ':'")
        if self.working_directory and base in place.parents:
            folders.copy_to(self.working_directory, str(place.relative_to(base)), host_path)
            return
        if self._copies is None:
            self._copies = folders.PrivateFolder()
        copy = self._copies.path / str(self._copied)
        self._copied += 1
        shutil.copyfile(host_path, copy)
        copy.chmod(0o644)   # the box's user is another one where the caller is root
        self._binds = [b for b in self._binds if not b.endswith(f":{place}")]
        self._binds.append(f"{copy}:{place}")

    def copy_out(self, container_path: str, host_path: Path) -> None:
        """Copy a file that the last run left in the working directory to @host_path.

        Raises FileNotFoundError when it left none, OSError for a symbolic link, ValueError for
        a path outside.
        """
        if not self._boxed:
            super().copy_out(container_path, host_path)
        base = PurePosixPath(self.working_directory or WORK_FOLDER)
        place = PurePosixPath(container_path)
        if place.is_absolute():
            if base not in place.parents:
                raise ValueError(f"{container_path!r} is outside of {base}: nothing else is kept "
                                 "after a run")
            place = place.relative_to(base)
        if self.working_directory:
            folders.copy_from(self.working_directory, str(place), host_path)
        elif self._last is None:
            raise FileNotFoundError(f"{container_path!r}: nothing has run yet")
        else:
            folders.copy_from(str(self._last.path), str(place), host_path)


class LLMSandboxEnvironment(ExecutionEnvironment):
    """The docker tiers. Not built yet: every run says so, and what to use."""

    def __init__(self, allowed_imports: list[str] | None = None, policy: Any = None,
                 working_directory: str | None = None,
                 installed_packages: set[str] | None = None,
                 failed_packages: set[str] | None = None, tier: str | None = None,
                 export_dir: Path | None = None) -> None:
        super().__init__(allowed_imports, policy, working_directory)
        self._tier = tier
        self._export_dir = None if export_dir is None or str(export_dir) in ("", ".") \
            else export_dir

    def _mode(self) -> str:
        return self._tier or ("docker" if self.policy is not None else "docker_unsafe")

    def __enter__(self) -> "LLMSandboxEnvironment":
        raise EngineMissingError(NO_ENGINE)

    def __exit__(self, *_: object) -> None:
        return None

    def copy_in(self, host_path: Path, container_path: str) -> None:
        raise RuntimeError("copy_in needs the environment in a with block; " + NO_ENGINE)

    def copy_out(self, container_path: str, host_path: Path) -> None:
        raise RuntimeError("copy_out needs the environment in a with block; " + NO_ENGINE)

    def execute(self, code: str, timeout: int | None = None) -> ExecutionResult:
        if self.policy is not None and self.policy.artifact_export_paths:
            warnings.warn("artifact_export_paths: nothing is exported without a with block",
                          RuntimeWarning, stacklevel=2)
        if self.allowed_imports is not None:
            try:
                result = self._check(code)
            except NsboxError as e:
                return _failed(self._mode(), e)
            if not result.success:
                return _refused(self._mode(), result)
        return _skipped(self._mode(), NO_ENGINE)


def make_execution_environment(tier: ExecutionTier, policy: Any = None,
                               allowed_imports: list[str] | None = None,
                               working_directory: str | None = None,
                               _install_cache: set[str] | None = None,
                               _failed_cache: set[str] | None = None,
                               export_dir: Path | None = None) -> ExecutionEnvironment:
    """The environment of a tier. @policy None: LOCAL_POLICY, DOCKER_POLICY, or none on the
    unsafe ones. ValueError for an unknown tier."""
    if tier == "static":
        return StaticAnalysisEnvironment(allowed_imports=allowed_imports)
    if tier not in TIERS:
        raise ValueError(f"unknown tier {tier!r}: one of {', '.join(TIERS)}")
    default = {"local": LOCAL_POLICY, "docker": DOCKER_POLICY}.get(tier)
    common: dict[str, Any] = {
        "allowed_imports": allowed_imports, "policy": policy if policy is not None else default,
        "working_directory": working_directory, "installed_packages": _install_cache,
        "failed_packages": _failed_cache, "tier": tier}
    if tier in ("local", "local_unsafe"):
        return UnsafeEnvironment(**common)
    return LLMSandboxEnvironment(**common, export_dir=export_dir)
