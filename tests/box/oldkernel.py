# as: root user
"""A kernel without some call: nsbox works without it, or refuses with a remedy."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, NSBOX, REPO, run  # noqa: E402
from host import Snapshot, become_reaper  # noqa: E402
from tap import run_tests  # noqa: E402

REFUSE = os.path.join(REPO, "build/tests/refuse")
CALLS = ("clone3", "openat2", "close_range", "landlock", "mount_setattr", "memfd_create", "pidfd_open")
MUST_WORK = ("clone3", "landlock")      # a fallback, and a second wall


def the_wrapper_refuses(tap):
    ran = run([REFUSE, "openat2", "--", ATTACK, "openat2-mode", "/nowhere/f", "0644"])
    tap.equal(ran.text(), "errno=ENOSYS", "behind the wrapper openat2 is not there")
    ran = run([ATTACK, "openat2-mode", "/nowhere/f", "0644"])
    tap.equal(ran.text(), "errno=ENOENT", "without it, it is")
    ran = run([REFUSE, "no-such-word", "--", "true"])
    tap.equal(ran.rc, 125, "an unknown word refuses nothing silently")


def each_missing_call(tap):
    host = Snapshot()
    for call in CALLS:
        ran = run([REFUSE, call, "--", NSBOX, "run", "--ro", f"{ATTACK}:/attack", "--", "/attack",
                   "call", "mount", "0", "0", "0", "0", "0"])
        if call in MUST_WORK or ran.rc == 0:
            tap.equal((ran.rc, ran.out), (0, b"errno=EPERM\n"), f"without {call} a box works, and is as tight", ran)
        else:
            tap.equal((ran.rc, ran.out), (125, b""), f"without {call} it is refused", ran)
            tap.equal(ran.err.count(b"\n"), 1, f"without {call}: in one line", ran)
            tap.ok(b"kernel" in ran.err, f"without {call}: the line says that the kernel is too old", ran)
        tap.equal(host.differences(0.5), [], f"without {call}: nothing is left")
    ran = run([REFUSE, "landlock", "--", NSBOX, "run", "--json", "--", "true"])
    tap.ok(b'"landlock":"none"' in ran.out, "without landlock the record says so", ran)


if __name__ == "__main__":
    become_reaper()
    run_tests([the_wrapper_refuses, each_missing_call])
