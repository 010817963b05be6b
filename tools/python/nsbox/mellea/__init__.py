"""What `mellea.stdlib.tools` has for running code, on nsbox: change the import, keep the calls.

    from nsbox.mellea import python_tool
    tool = python_tool(tier="local", packages=["numpy"])
    tool.run(code="print(1 + 1)").stdout        # '2'

Names and signatures are mellea's; when mellea can be imported, results and tools are of its own
classes. Different is what its fields promise: on `local` each of them is enforced by a box, or
the run is refused. Every difference is listed in the README beside this package.
"""

from .environments import (ExecutionEnvironment, LLMSandboxEnvironment,
                           StaticAnalysisEnvironment, UnsafeEnvironment,
                           make_execution_environment)
from .policy import (COMPATIBILITY_MATRIX, DOCKER_POLICY, LOCAL_POLICY, CapabilityPolicy,
                     ExecutionTier)
from .shapes import HAVE_MELLEA, Artifact, ExecutionResult, MelleaTool
from .tool import code_interpreter, local_code_interpreter, python_tool

__all__ = [
    "Artifact", "COMPATIBILITY_MATRIX", "CapabilityPolicy", "DOCKER_POLICY",
    "ExecutionEnvironment", "ExecutionResult", "ExecutionTier", "HAVE_MELLEA",
    "LLMSandboxEnvironment",
    "LOCAL_POLICY", "MelleaTool", "StaticAnalysisEnvironment", "UnsafeEnvironment",
    "code_interpreter", "local_code_interpreter", "make_execution_environment", "python_tool",
]
