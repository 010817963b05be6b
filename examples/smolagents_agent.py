#!/usr/bin/env python3
"""An agent whose code runs in a box: nsbox.smolagents as the executor of smolagents' CodeAgent.

    python3 examples/smolagents_agent.py

With smolagents installed its own CodeAgent runs; else a loop of a few lines in its place. The
model is scripted, so neither needs a network: it writes code, sees what that printed, and goes on.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "python"))
from nsbox.smolagents import HAVE_SMOLAGENTS, NsboxExecutor, NsboxPythonExecutor  # noqa: E402

TASK = "Sum the first ten squares, with the tool for squares."
STEPS = [
    "total = sum(square(n) for n in range(1, 11))\nprint('so far', total)",
    "import os\n"
    "try:\n    print('secrets:', open('/etc/shadow').read()[:20])\n"
    "except OSError as e:\n    print('secrets:', e.strerror)\n"
    "print('home:', os.listdir(os.path.expanduser('~')))",
    "total / 0",
    "final_answer(total)",
]


def square(n):
    """Runs on the host, called from the box."""
    return n * n


def with_smolagents():
    from smolagents import CodeAgent, tool
    from smolagents.models import ChatMessage, Model

    @tool
    def square_tool(n: int) -> int:
        """The square of a number.

        Args:
            n: the number
        """
        return n * n
    square_tool.name = "square"

    class Scripted(Model):
        asked = 0

        def generate(self, messages, **_):
            said = messages[-1].content
            if self.asked:
                show(said if isinstance(said, str) else said[-1]["text"])
            code = STEPS[self.asked]
            self.asked += 1
            return ChatMessage(role="assistant", content=f"Next.\n<code>\n{code}\n</code>")

    print("CodeAgent of smolagents")
    with CodeAgent(tools=[square_tool], model=Scripted(), executor=NsboxExecutor([]),
                   max_steps=len(STEPS), verbosity_level=-1) as agent:
        return agent.run(TASK)


def with_a_loop_of_our_own():
    print("a loop in place of smolagents")
    with NsboxPythonExecutor(["os"]) as executor:
        executor.send_tools({"square": square, "final_answer": lambda answer: answer})
        for code in STEPS:
            try:
                got = executor(code)
            except Exception as e:
                show(str(e))
                continue
            show(got.logs)
            if got.is_final_answer:
                return got.output
    raise SystemExit("no answer")


def show(text):
    for line in text.strip().splitlines():
        print("    " + line)


def main():
    answer = with_smolagents() if HAVE_SMOLAGENTS else with_a_loop_of_our_own()
    print(f"the answer: {answer}")
    return 0 if answer == 385 else 1


if __name__ == "__main__":
    sys.exit(main())
