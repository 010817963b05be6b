"""Interpreters with real packages of an index, for suites that prove what they are for.

Such a suite has a line `# needs: an index` and a function install(place), which makes a venv in
a folder and returns (interpreter, None) or (None, why not). tests/run has all of them made while
the other suites run; a suite that is run alone makes its own.
"""

import json
import os
import sys
import tempfile
import time

PATIENCE = 900   # seconds, for what tests/run has begun to make


class Prepared:
    def __init__(self, place, python, why, folder=None):
        self.place, self.python, self.why, self._folder = place, python, why, folder

    def cleanup(self):
        if self._folder:
            self._folder.cleanup()


def name_of(suite):
    return os.path.splitext(os.path.basename(suite))[0]


def wait_for(shared, name):
    """What the preparer of this name left; None: it ended without."""
    found, end = os.path.join(shared, name + ".json"), time.monotonic() + PATIENCE
    while not os.path.exists(found):
        if os.path.exists(os.path.join(shared, "over")) and not os.path.exists(found):
            return None
        if time.monotonic() > end:
            return None
        time.sleep(0.2)
    with open(found, encoding="utf-8") as f:
        return json.load(f)


def get(suite, install):
    """The interpreter of a suite: of tests/run, or made now."""
    shared = os.environ.get("NSBOX_PREPARED")
    found = wait_for(shared, name_of(suite)) if shared else None
    if found:
        return Prepared(*found)
    folder = tempfile.TemporaryDirectory(dir=os.environ.get("NSBOX_SCRATCH"))
    os.chmod(folder.name, 0o755)
    python, why = install(folder.name)
    return Prepared(folder.name, python, why, folder)


def if_asked(suite, install):
    """`SUITE --prepare FOLDER`: make it there, and leave what came of it as a file."""
    if sys.argv[1:2] != ["--prepare"]:
        return
    shared, name = sys.argv[2], name_of(suite)
    place = os.path.join(shared, name)
    os.makedirs(place, exist_ok=True)
    python, why = install(place)
    with open(os.path.join(shared, name + ".part"), "w", encoding="utf-8") as f:
        json.dump([place, python, why], f)
    os.rename(os.path.join(shared, name + ".part"), os.path.join(shared, name + ".json"))
    sys.exit(0)
