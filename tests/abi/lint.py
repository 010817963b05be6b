#!/usr/bin/env python3
# as: user
"""tools/lint/run as a suite: it speaks TAP by itself."""

import os

os.execv("tools/lint/run", ["tools/lint/run"])
