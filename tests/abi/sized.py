#!/usr/bin/env python3
# as: user
"""Builds sized.c against the header and the static library, and becomes it."""

import os
import subprocess
import tempfile

with tempfile.TemporaryDirectory(prefix="sized.") as folder:
    program = os.path.join(folder, "sized")
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-Iruntime/include", "tests/abi/sized.c", "-o", program,
                    "build/lib/libnsbox.a", "-ljansson"], check=True)
    status = subprocess.run([program], check=False).returncode
raise SystemExit(status)
