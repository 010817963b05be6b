#!/usr/bin/env python3
# as: root user
"""nsbox.mellea against what mellea's own code interpreter does: cases M1 to M83, in cases/.

Where nsbox decided otherwise the title says "ours". Where the real mellea is importable its
classes are the ones tested.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "harness"))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
# This file has the name of the package that nsbox.mellea looks for.
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
import nsbox.mellea  # noqa: E402, F401

sys.path.append(HERE)
from cases import mellea_files, mellea_runs  # noqa: E402

if __name__ == "__main__":
    tap_unittest.main(mellea_runs, mellea_files)
