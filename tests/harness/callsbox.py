"""A program whose network is a matter of calls (callsbox.c), for the suites.

`calls(flags, *command)` is box() of box.py without the box: the flags of `nsbox run` that a network
has, and a Ran with the record's network and denials. What the command prints is in `.text()`.
"""

import json
import os
import subprocess
import tempfile
import time

from box import REPO, SCRATCH, Ran, environ

CALLSBOX = os.path.join(REPO, "build/tests/callsbox")
ACTS = os.path.join(REPO, "tests/harness/callsacts.py")
KEYS = {"--net": "net.mode", "--allow-out": "net.allow_out", "--deny-out": "net.deny_out",
        "--allow-private": "net.allow_private", "--publish": "net.publish"}


def settings(flags):
    """`nsbox run` flags as settings of callsbox."""
    out = []
    for flag, value in zip(flags[::2], flags[1::2]):
        out += ["-s", value if flag == "--set" else f"{KEYS[flag]}={value}"]
    return out


def start(flags, *command, pid_file=None, new=None, **popen):
    """A running one, and the file that its record goes to."""
    record = tempfile.TemporaryFile(dir=SCRATCH)
    where = (["-p", pid_file] if pid_file else []) + (["-n", new] if new else [])

    popen.setdefault("stdin", subprocess.DEVNULL)

    def give_record():
        os.dup2(record.fileno(), 9, inheritable=True)

    proc = subprocess.Popen([CALLSBOX, *settings(flags), *where, "--", *command],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(popen.pop("env", None)),
                            cwd=SCRATCH, preexec_fn=give_record, pass_fds=(9,), **popen)
    return proc, record


def finish(proc, record, begun, limit=60):
    try:
        out, err = proc.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.communicate()
        raise AssertionError(f"still running after {limit} s: {proc.args}") from None
    record.seek(0)
    text = record.read()
    record.close()
    return Ran(proc.returncode, out, err, time.monotonic() - begun, json.loads(text) if text else None)


def calls(flags, *command, limit=60, **popen):
    begun = time.monotonic()
    proc, record = start(flags, *command, **popen)
    return finish(proc, record, begun, limit)


def acts(flags, *lines, limit=60):
    """The answers of callsacts.py, one a line, and its Ran."""
    ran = calls(flags, "/usr/bin/python3", ACTS, *lines, limit=limit)
    return ran.text().split("\n"), ran
