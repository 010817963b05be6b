#!/usr/bin/env python3
"""A tool for agents that runs Python in a box: nsbox.mellea in place of mellea's own.

    python3 examples/mellea_tool.py

Works without mellea. Where it is installed, its ReACT loop runs too, with a scripted model: the
"model" writes code, mellea calls the tool, and the answer is what the code printed.
"""

import asyncio
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "python"))
from nsbox.mellea import HAVE_MELLEA, CapabilityPolicy, MelleaTool, python_tool  # noqa: E402

GOAL = "What is the sum of the first ten squares?"
CODE = "print(sum(n * n for n in range(1, 11)))"
HOSTILE = """
import os, socket
for act in (lambda: open(os.path.expanduser('~/.ssh/id_rsa')).read(),
            lambda: socket.create_connection(('192.0.2.1', 80), 2),
            lambda: open('/etc/shadow').read()):
    try:
        print('allowed:', act())
    except OSError as e:
        print('refused:', e.strerror)
"""


def show(title, result):
    print(f"{title}: success={result.success} skipped={result.skipped}"
          + (f" ({result.skip_message})" if result.skip_message else ""))
    for line in (result.stdout or "").splitlines():
        print("    " + line)


def tools():
    tool = python_tool(tier="local")
    show("a sum", tool.run(code=CODE))
    show("what it may not", tool.run(code=HOSTILE))
    show("only math", python_tool(tier="local", allowed_imports=["math"]).run(code="import os"))
    limited = python_tool(tier="local", policy=CapabilityPolicy(timeout=1))
    show("a loop without an end", limited.run(code="print('begun', flush=True)\nwhile True: pass"))
    with tempfile.TemporaryDirectory() as folder:
        result = python_tool(tier="local", artifact_dir=folder).run(
            code="open('table.csv', 'w').write('a,b\\n1,2\\n')")
        show("a file", result)
        for artifact in result.artifacts:
            print(f"    {os.path.basename(artifact.path)}: {artifact.size_bytes} bytes, "
                  f"{artifact.content_type}")


def scripted_model(tool):
    """A backend of mellea: first calls the tool, then answers with what the tool said."""
    from mellea.core import Backend, GenerateLog, ModelOutputThunk
    from mellea.core.base import ModelToolCall
    from mellea.stdlib.components.chat import ToolMessage

    def final_answer(answer: str) -> str:
        """End with this answer."""
        return answer
    final = MelleaTool.from_callable(final_answer)

    class Scripted(Backend):
        _model_id = _provider = "scripted"

        async def _generate_from_context(self, action, ctx, **_):
            said = [m for m in ctx.as_list() if isinstance(m, ToolMessage)]
            call = ModelToolCall("final_answer", final, {"answer": said[-1].content}) if said \
                else ModelToolCall(tool.name, tool, {"code": CODE})
            thunk = ModelOutputThunk(value="I call a tool.", tool_calls=[call])
            thunk._generate_log = GenerateLog()
            return thunk, ctx.add(action).add(thunk)

        async def _generate_from_raw(self, actions, ctx, **_):
            raise NotImplementedError
    return Scripted()


async def agent():
    from mellea.stdlib.context import ChatContext
    from mellea.stdlib.frameworks.react import react

    class Printed(MelleaTool):
        """The tool, with the printed text as what the model reads."""

        def run(self, code):
            return super().run(code=code).to_validationresult_reason()
    inner = python_tool(tier="local")
    tool = Printed(inner.name, inner.run, inner.as_json_tool)
    answer, _ = await react(GOAL, ChatContext(), scripted_model(tool), tools=[tool])
    print(f"{GOAL} {answer.value}")
    return answer.value


if __name__ == "__main__":
    tools()
    if HAVE_MELLEA:
        import logging
        logging.disable(logging.WARNING)
        if asyncio.run(agent()) != "385":
            sys.exit("the agent's answer is wrong")
    else:
        print("mellea is not installed: its agent loop was left out")
