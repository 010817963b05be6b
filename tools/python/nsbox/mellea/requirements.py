"""mellea's requirements that code runs, with the run in a box: change the import, keep the calls.

    from nsbox.mellea.requirements import PythonExecutionReq
    session.instruct("write ...", requirements=[PythonExecutionReq("local")])

Needs mellea. Extraction of the code, the deprecated arguments and the texts are mellea's own; what
runs the code is make_execution_environment() of this package, so that `local` is enforced, whatever
mellea's log line about missing isolation says. Must not: fall back to mellea's environments.
"""

from __future__ import annotations

from typing import Any

from mellea.core import Context, Requirement, ValidationResult
from mellea.stdlib.requirements import python_reqs as _upstream
from mellea.stdlib.requirements import python_tools as _tools

from .environments import make_execution_environment

__all__ = ["PythonExecutionReq", "python_code_generation_requirements"]


class PythonExecutionReq(_upstream.PythonExecutionReq):
    """Arguments as mellea has them. Raises ValueError for max_output_chars <= 0."""

    def __init__(self, execution_tier: Any = "static", **how: Any) -> None:
        super().__init__(execution_tier, **how)
        # What became of the arguments, deprecated ones included.
        environment = make_execution_environment(
            self._tier, policy=self._policy, allowed_imports=self._allowed_imports)
        most = self._max_output_chars

        def validate(ctx: Context) -> ValidationResult:
            return _upstream._python_executes_without_error(ctx, environment, most)  # type: ignore[arg-type]
        self.validation_fn = validate


def python_code_generation_requirements(
        allowed_imports: list[str] | None = None, output_limit_chars: int = 10_000,
        timeout_seconds: int = 5, use_sandbox: bool = False) -> list[Requirement]:
    """mellea's list of requirements, with the PythonExecutionReq of this module in it."""
    made = _tools.python_code_generation_requirements(
        allowed_imports, output_limit_chars, timeout_seconds, use_sandbox)
    return [PythonExecutionReq(one._tier, policy=one._policy, max_output_chars=one._max_output_chars,
                               allowed_imports=one._allowed_imports)
            if isinstance(one, _upstream.PythonExecutionReq) else one for one in made]
