#!/usr/bin/env python3
"""Inspect AI's own checks of a sandbox, on nsbox: `pip install inspect-ai`, then run this.

One box for all of them. A box has one user, so the check that makes a second one cannot pass; it is
told apart.
"""

import asyncio
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "python"))

CANNOT = {"test_exec_as_user": "a box has one user"}


async def run_checks() -> int:
    from inspect_ai.util import SandboxUserUnsupportedError
    from inspect_ai.util._sandbox import self_check
    from nsbox.inspect import NsboxSandboxEnvironment as Environment

    environments = await Environment.sample_init("selfcheck", None, {})
    counts = {"passed": 0, "failed": 0, "cannot": 0}
    try:
        for name in self_check.__all__:
            how, why = "passed", ""
            try:
                await getattr(self_check, name)(environments["default"])
            except SandboxUserUnsupportedError as e:
                how, why = "cannot" if name in CANNOT else "failed", str(e)
            except Exception as e:
                how, why = "failed", f"{type(e).__name__}: {e}"
            counts[how] += 1
            print(f"{how} {name}{': ' + why[:300] if why else ''}")
    finally:
        await Environment.sample_cleanup("selfcheck", None, environments, False)
    print(", ".join(f"{count} {how}" for how, count in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    try:
        import inspect_ai  # noqa: F401
    except ImportError as missing:
        print(f"skipped: {missing}; pip install inspect-ai")
        sys.exit(0)
    sys.exit(asyncio.run(run_checks()))
