#!/usr/bin/env python3
# as: root
# needs: an index
"""The adapters with the real packages, and the suites that these have for a sandbox: installed into
one throw-away venv, skipped where no package index is reached."""

import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import prepared  # noqa: E402
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
PACKAGES = ["inspect-ai==0.3.285", "langchain==1.5.2", "langchain-tests==1.1.9",
            "deepagents==0.7.32"]
# The newest that SandboxIntegrationTests of 1.1.9 agree with; the cases below are about the
# methods of deepagents' own base class, which 0.7 changed.
FITTING = "deepagents==0.6.12"
CHANGED = ("test_glob", "test_glob_basic_pattern", "test_glob_with_directories",
           "test_glob_hidden_files_explicitly", "test_glob_with_character_class",
           "test_glob_with_question_mark", "test_write_existing_file_fails")

SUITE = '''
import sys
import pytest
from langchain_tests.integration_tests import SandboxIntegrationTests
from nsbox.langchain import NsboxSandbox

class TestNsbox(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self):
        # The suite calls `python`, which the system may have as `python3` alone.
        with NsboxSandbox(interpreter=sys.executable) as backend:
            yield backend
'''

EVAL = '''
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import bash, python
from inspect_ai.util import sandbox

@solver
def remote():
    async def solve(state, generate):
        got = await sandbox().exec_remote(["sh", "-c", "cat given.txt; id -un"], stream=False)
        state.store.set("remote", got.stdout)
        return state
    return solve

outputs = [ModelOutput.for_tool_call("m", "bash", {"command": "echo 21 > kept; id -un"}),
           ModelOutput.for_tool_call("m", "python",
                                     {"code": "print(int(open('kept').read()) * 2)"}),
           ModelOutput.from_content("m", "42")]
for one in outputs:     # else it would fetch a tokenizer
    one.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
task = Task([Sample("?", target="42", files={"given.txt": "given\\n"})], scorer=includes(),
            solver=[remote(), use_tools([bash(), python()]), generate()], sandbox="nsbox")
log = eval(task, model=get_model("mockllm/model", custom_outputs=outputs), display="none",
           log_dir=sys.argv[1])[0]
sample = log.samples[0]
print("told", log.status, repr(sample.store.get("remote")),
      [m.text.strip() for m in sample.messages if m.role == "tool"])
'''

MODEL = '''
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **how):
        return self

def script(*calls):
    turns = [AIMessage("", tool_calls=[{"name": name, "args": args, "id": str(n)}])
             for n, (name, args) in enumerate(calls)]
    return Model(messages=iter([*turns, AIMessage("done")]))

def told(agent):
    messages = agent.invoke({"messages": [("user", "go")]})["messages"]
    print("told", [m.content for m in messages if m.type == "tool"])
'''

DEEP = MODEL + '''
from deepagents import create_deep_agent
from nsbox.deepagents import NsboxSandbox
with NsboxSandbox() as backend:
    told(create_deep_agent(script(
        ("write_file", {"file_path": "/workspace/a.py", "content": "print(6 * 7)"}),
        ("execute", {"command": "python3 a.py; id -un; exit 3"})), backend=backend))
'''

SHELL = MODEL + '''
import sys
from langchain.agents import create_agent
from langchain.agents.middleware import ShellToolMiddleware
from nsbox.langchain import NsboxExecutionPolicy, code_tool
shell = ShellToolMiddleware(workspace_root=sys.argv[1], env={"GIVEN": "by env"},
                            execution_policy=NsboxExecutionPolicy(options={"memory": "512M"}))
told(create_agent(script(("shell", {"command": "cd /tmp; id -un; X=kept"}),
                         ("shell", {"command": "pwd; echo $X $GIVEN"}),
                         ("run_python", {"code": "print(6 * 7)"}),
                         ("run_python", {"code": "import sys; sys.exit('no')"})),
                  tools=[code_tool()], middleware=[shell]))
'''

WRONG = '''
import asyncio
from nsbox import errors
from nsbox.inspect import NsboxConfig, NsboxSandboxEnvironment as Environment
from nsbox.langchain import NsboxExecutionPolicy, code_tool
from inspect_ai.util import SandboxUnavailableError

async def inspect():
    for config in (NsboxConfig(memroy="1G"), "no-such-profile"):
        try:
            await Environment.sample_init("t", config, {})
        except errors.NsboxError as e:
            print("refused", e.code)
    environments = await Environment.sample_init("t", None, {})
    box = environments["default"]
    print("left", (await box.exec(["nsbox-no-such"])).returncode)
    try:
        await box.exec(["sh", "-c", "kill -9 -1; sleep 99"])
    except SandboxUnavailableError:
        print("unavailable")
    await Environment.sample_cleanup("t", None, environments, True)

asyncio.run(inspect())
for make in (lambda: NsboxExecutionPolicy(options={"memroy": 1}),
             lambda: NsboxExecutionPolicy(options={"artifacts": "x"}),
             lambda: code_tool(memroy=1)):
    try:
        make()
    except errors.UsageError:
        print("refused usage")
'''


def install(place):
    """The interpreter of a new venv with all of them in it; else None and why not."""
    pip = [os.path.join(place, "bin", "python"), "-m", "pip", "install", "-q", "--no-compile",
           "--disable-pip-version-check", "--retries", "1"]
    old = os.path.join(place, "fitting")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for argv in ([sys.executable, "-m", "venv", place], [*pip, *PACKAGES],
                 [*pip, "--no-deps", "--target", old, FITTING],
                 [*pip, "--no-deps", os.path.join(tap_unittest.REPO, "tools", "python")]):
        try:
            ran = subprocess.run(argv, capture_output=True, text=True, timeout=300, env=env)
        except subprocess.TimeoutExpired:
            return None, f"{' '.join(argv[-3:])} took more than 300 s"
        if ran.returncode:
            lines = (ran.stderr or ran.stdout).strip().splitlines()
            return None, lines[-1] if lines else f"status {ran.returncode}"
    return os.path.join(place, "bin", "python"), None


class Upstream(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = prepared.get(__file__, install)
        cls.place, cls.python, cls.why = cls.scratch.place, cls.scratch.python, cls.scratch.why

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        if self.python is None:
            self.skipTest(f"the packages cannot be installed: {self.why}")

    def run_it(self, *argv, path=None, seconds=400):
        """With what pip installed, not with this checkout's sources."""
        env = {k: v for k, v in os.environ.items() if k not in ("NSBOX_TEST_ONLY", "PYTHONPATH")}
        if path:
            env["PYTHONPATH"] = path
        return subprocess.run([self.python, *argv], capture_output=True, text=True, env=env,
                              timeout=seconds, cwd=self.place)

    def told(self, source, *args):
        ran = self.run_it("-c", source, *args)
        self.assertEqual(ran.returncode, 0, ran.stderr[-4000:])
        return [line for line in ran.stdout.splitlines() if line.startswith("told ")]

    def langchain(self, least, *only, path=None):
        """Names of langchain's cases that did not pass, of at least @least; and the output."""
        suite = os.path.join(self.place, "test_nsbox.py")
        with open(suite, "w", encoding="utf-8") as file:
            file.write(SUITE)
        ran = self.run_it("-m", "pytest", "-v", "--tb=short", "-W", "ignore", "-o",
                          "asyncio_mode=auto", "-p", "no:cacheprovider", suite, *only, path=path)
        found = dict(re.findall(r"::(test_\w+) (PASSED|FAILED|SKIPPED|ERROR)", ran.stdout))
        self.assertGreaterEqual(len(found), least, ran.stdout[-4000:] + ran.stderr[-2000:])
        return {name for name, how in found.items() if how != "PASSED"}, ran.stdout[-6000:]

    def test_self_check(self):
        """Inspect AI's self_check: all pass but the one that makes a second user"""
        ran = self.run_it(os.path.join(tap_unittest.REPO, "examples", "inspect_selfcheck.py"))
        self.assertIn("cannot test_exec_as_user: a box has one user", ran.stdout)
        self.assertRegex(ran.stdout, r"(?m)^43 passed, 0 failed, 1 cannot$", ran.stderr)

    def test_eval(self):
        """an eval with a scripted model: found by its entry point, files, bash, python, exec_remote"""
        self.assertEqual(self.told(EVAL, os.path.join(self.place, "logs")),
                         [r"told success 'given\nnsbox\n' ['nsbox', '42']"])

    def test_langchain_fitting(self):
        """LangChain's SandboxIntegrationTests pass, every one, with the deepagents they fit"""
        bad, said = self.langchain(86, path=os.path.join(self.place, "fitting"))
        self.assertEqual(bad, set(), said)

    def test_langchain_newest(self):
        """with a newer deepagents, those of writing and of names fail just where it changed"""
        bad, said = self.langchain(23, "-k", "glob or write")
        self.assertEqual(bad, set(CHANGED), said)

    def test_deep_agent(self):
        """a deep agent with a scripted model writes a file and runs it in its box"""
        told = self.told(DEEP)
        self.assertEqual(len(told), 1)
        self.assertIn("42\\nnsbox\\n", told[0])
        self.assertIn("exit code 3", told[0])

    def test_shell(self):
        """an agent of LangChain: its shell stays in a box, its code runs in fresh ones"""
        work = os.path.join(self.place, "work")
        self.assertEqual(self.told(SHELL, work), [
            r"told ['nsbox\n', '/tmp\nkept by env\n', '42', '[stderr]\nno\n[exited, exit code 1]']"])

    def test_wrong(self):
        """wrong options are told when they are made; a box that is gone is unavailable"""
        ran = self.run_it("-c", WRONG)
        self.assertEqual(ran.stdout.splitlines(), [
            "refused usage", "refused policy", "left 127", "unavailable", "refused usage",
            "refused usage", "refused usage"], ran.stderr[-3000:])


if __name__ == "__main__":
    prepared.if_asked(__file__, install)
    tap_unittest.main()
