# as: user
"""An ordinary user under systemd: a manager of its own, and scopes that it delegates.

Runs in the guest `systemd` of tests/vm: systemd is PID 1, the user lingers."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import box, nsbox, run  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

RUNTIME = f"/run/user/{os.getuid()}"
# What a login sets, and a user's programs know the manager by.
SESSION = {"XDG_RUNTIME_DIR": RUNTIME, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={RUNTIME}/bus"}
SCOPE = ("systemd-run", "--user", "--scope", "--quiet", "--collect", "-p", "Delegate=yes", "--")
BY_KERNEL = {"memory": "kernel", "pids": "kernel", "cpu": "kernel"}


def in_scope(*argv):
    return run([*SCOPE, *argv], env=SESSION)


def strengths(record):
    return {name: record["enforced"][name] for name in BY_KERNEL}


def the_user_has_a_manager(tap):
    tap.ok(os.environ.get("NSBOX_TEST_VM"), "this is a guest of tests/vm")
    with open("/proc/1/comm", encoding="ascii") as f:
        tap.equal(f.read().strip(), "systemd", "PID 1 is systemd")
    ran = run(["systemctl", "--user", "show", "-p", "Version"], env=SESSION)
    tap.ok(ran.rc == 0 and ran.text().startswith("Version="), "the user's manager answers on its bus", ran)
    ran = run(["systemctl", "--user", "is-system-running"], env=SESSION)
    tap.among(ran.text(), ("running", "degraded"), "and is up", ran)


def a_scope_has_controllers(tap):
    """The control for all below: systemd gives what it was asked for."""
    show = 'cg=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); cat "$cg/cgroup.controllers"; '
    ran = in_scope("sh", "-c", show)
    tap.equal({"cpu", "memory", "pids"} - set(ran.text().split()), set(), "a delegated scope has cpu, memory, pids", ran)
    ran = in_scope("sh", "-c", show + 'mkdir "$cg/sub" && echo made && rmdir "$cg/sub"')
    tap.ok("made" in ran.text(), "and its user may make groups in it", ran)
    ran = run(["sh", "-c", show + 'mkdir "$cg/sub" && echo made'])
    tap.ok(b"Permission denied" in ran.err and "made" not in ran.text(), "outside of one the user may not", ran)


def a_box_without_a_scope(tap):
    ran = box([], "sh", "-c", "echo hi", env=SESSION)
    tap.equal((ran.rc, ran["verdict"], ran["stdout"]), (0, "exited", "hi\n"), "a box runs without one", ran)
    tap.equal(set(strengths(ran.record).values()) - {"kernel", "userspace"}, set(), "with each limit held", ran)


def doctor_works(tap):
    ran = nsbox("doctor", env=SESSION)
    tap.among(ran.rc, (0, 1), "doctor: boxes can be had", ran)


def nothing_survives(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")
    ran = run(["systemctl", "--user", "list-units", "--type=scope", "--plain", "--no-legend", "run-*"], env=SESSION)
    tap.equal(ran.text(), "", "no scope is left", ran)


if __name__ == "__main__":
    become_reaper()
    run_tests([the_user_has_a_manager, a_scope_has_controllers, a_box_without_a_scope, doctor_works, nothing_survives])
