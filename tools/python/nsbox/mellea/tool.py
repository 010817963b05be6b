"""python_tool, and the two deprecated functions."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Callable

from . import policy as policies
from .environments import (NO_ENGINE, EngineMissingError, ExecutionEnvironment,
                           UnsafeEnvironment, make_execution_environment)
from .folders import PrivateFolder, keep_with
from .policy import ExecutionTier
from .shapes import ExecutionResult, MelleaTool

_DOCKER = ("docker", "docker_unsafe")


def _warn_of_defaults(tier: str | None, policy: Any) -> None:
    """As mellea, at the caller's line; but `local` needs no warning, since it enforces."""
    if tier is None:
        warnings.warn(
            "python_tool() without a tier takes 'local_unsafe': a plain process that may do all "
            "that you may. Pass tier='local' for a box, or tier='local_unsafe' to say that you "
            "mean it.", UserWarning, stacklevel=3)
    if policy is not None and tier in (None, "local_unsafe"):
        forbidden = policies.restrictions(policy)
        if forbidden:
            warnings.warn(
                f"the tier 'local_unsafe' enforces none of {', '.join(forbidden)}; "
                "tier='local' does", UserWarning, stacklevel=3)


def python_tool(tier: ExecutionTier | None = None, packages: list[str] | None = None,
                artifact_dir: Path | None = None, policy: Any = None,
                allowed_imports: list[str] | None = None, name: str = "python",
                suppress_agg: bool = False) -> MelleaTool:
    """A tool whose run(code=...) returns an ExecutionResult.

    tier: None is `local_unsafe` with a warning; `local` is one word away.
    packages: installed before the first run (PEP 508), never into this interpreter.
    artifact_dir: where the code works and its files stay; None: a private folder, of which the
        files live as long as the result.
    policy: instead of the tier's default; allowed_imports: None: any, []: none.
    suppress_agg: leave matplotlib its own choice of backend; otherwise it draws to files.

    Raises ValueError for a package that is none, EngineMissingError (an ImportError) for a
    docker tier with artifact_export_paths, whose container would be opened here.
    """
    _warn_of_defaults(tier, policy)
    chosen = tier or "local_unsafe"
    if packages:
        policies.check_packages(packages)
        policy = policies.with_packages(policy, packages)
    exports = policy is not None and bool(policy.artifact_export_paths)
    if chosen in _DOCKER and artifact_dir is not None and not exports:
        warnings.warn("artifact_dir needs artifact_export_paths on a docker tier: nothing comes "
                      "out without", RuntimeWarning, stacklevel=2)
    installed: set[str] = set()
    failed: set[str] = set()

    def environment(directory: str | None) -> ExecutionEnvironment:
        return make_execution_environment(
            chosen, policy=policy, allowed_imports=allowed_imports, working_directory=directory,
            _install_cache=installed, _failed_cache=failed, export_dir=artifact_dir)

    if chosen in _DOCKER and exports:
        raise EngineMissingError(NO_ENGINE)

    def run_python(code: str) -> ExecutionResult:
        """Execute Python code and return the result with any output artifacts.

        Args:
            code: The Python source code to execute.
        """
        return _run(environment, chosen, artifact_dir, code, suppress_agg)

    return MelleaTool.from_callable(run_python, name=name)


def _run(environment: Callable[[str | None], ExecutionEnvironment], tier: str,
         artifact_dir: Path | None, code: str, suppress_agg: bool) -> ExecutionResult:
    directory, private = None, None
    if artifact_dir is not None and tier not in _DOCKER:
        os.makedirs(artifact_dir, exist_ok=True)
        directory = str(artifact_dir)
    elif tier == "local_unsafe":
        private = PrivateFolder()
        directory = str(private.path)
    env = environment(directory)
    if isinstance(env, UnsafeEnvironment):
        # An empty MPLBACKEND is none for matplotlib.
        env._extra_env = {"MPLBACKEND": "" if suppress_agg else "Agg"}
    result = env.execute(code)
    if private is not None and result.artifacts:
        keep_with(result, private)
    return result


def code_interpreter(code: str) -> ExecutionResult:
    """Deprecated: python_tool(tier="docker_unsafe").run(code=code)."""
    warnings.warn("code_interpreter() is deprecated: use python_tool(tier='docker_unsafe'), or "
                  "tier='local'", DeprecationWarning, stacklevel=2)
    return make_execution_environment("docker_unsafe").execute(code)


def local_code_interpreter(code: str) -> ExecutionResult:
    """Deprecated: python_tool(tier="local_unsafe").run(code=code); 60 seconds at most."""
    warnings.warn("local_code_interpreter() is deprecated: use python_tool(tier='local_unsafe'), "
                  "or tier='local'", DeprecationWarning, stacklevel=2)
    return make_execution_environment("local_unsafe").execute(code, timeout=60)
