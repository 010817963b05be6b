# as: root user
"""Ubuntu's AppArmor restriction, imitated: a user namespace can be made, and nothing that
needs a capability works in it. Refused with the cause and the remedy, never run weaker.

As root the switch that Ubuntu's kernel has reads 1 as well, in a mount namespace of the
test's own; as a user it cannot be read, and the text must not blame it."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, NSBOX, REPO, SCRATCH, run  # noqa: E402
from host import Snapshot, become_reaper  # noqa: E402
from tap import run_tests  # noqa: E402

SWITCH = "kernel.apparmor_restrict_unprivileged_userns"
REFUSE = [os.path.join(REPO, "build/tests/refuse"), "capabilities", "--"]
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
# The switch has no place in a kernel without it: a tmpfs instead of the folder.
WITH_SWITCH = ["unshare", "-m", "sh", "-c", "mount -t tmpfs kernel /proc/sys/kernel && "
               "echo 1 >/proc/sys/kernel/${0#kernel.} && exec \"$@\"", SWITCH]
PLACE = os.path.join(SCRATCH, "apparmor")
HOME = os.path.join(SCRATCH, "home")


def user(*argv):
    """The command by an ordinary user, here and now."""
    return run([*(NOBODY if AS == "root" else ()), *argv], env={"HOME": HOME})


def restricted(*argv):
    """The same under the imitation."""
    if AS == "root":
        return run([*WITH_SWITCH, *NOBODY, *REFUSE, *argv], env={"HOME": HOME})
    return run([*REFUSE, *argv], env={"HOME": HOME})


def what_is_refused_is_what_ubuntu_refuses(tap):
    tap.equal(user("unshare", "-Urm", "true").rc, 0, "control: a user may make a mount namespace here")
    tap.equal(restricted("unshare", "-Ur", "true").rc, 0, "restricted: a user namespace can be made")
    ran = restricted("unshare", "-Urm", "mount", "-t", "tmpfs", "t", "/tmp")
    tap.ok(ran.rc != 0 and b"ermission denied" in ran.err, "restricted: a mount inside is refused", ran)
    ran = restricted("unshare", "-Uru", "hostname", "other")
    tap.ok(ran.rc != 0 and b"hostname" in ran.err, "restricted: so is a host name", ran)


def check_text(tap, text, what):
    said = text.decode("utf-8", "replace")
    if AS == "root":
        tap.ok("AppArmor" in said, f"{what}: says that it is AppArmor", said)
        tap.ok(f"sysctl -w {SWITCH}=0" in said, f"{what}: the remedy names the switch", said)
        tap.ok("profile" in said, f"{what}: and the profile that would do", said)
    else:
        tap.ok("capabilities" in said, f"{what}: says what is missing in the namespace", said)
        tap.ok("nsbox doctor" in said, f"{what}: and where to look", said)
        tap.ok(SWITCH not in said, f"{what}: a switch that is not there is not blamed", said)


def every_way_to_run_is_refused(tap):
    for place in (PLACE, HOME):
        os.makedirs(place, exist_ok=True)
        if AS == "root":
            os.chown(place, 65534, 65534)
    host = Snapshot()
    for flags in ((), ("--allow-degraded",), ("-p", "debug")):
        what = " ".join(flags) or "no flags"
        ran = restricted(NSBOX, "run", "--rw", f"{PLACE}:/w", *flags, "--", "touch", "/w/ran")
        tap.equal((ran.rc, ran.out), (125, b""), f"{what}: refused with 125", ran)
        tap.equal(ran.err.count(b"\n"), 1, f"{what}: in one line", ran)
        check_text(tap, ran.err, what)
        tap.equal(os.listdir(PLACE), [], f"{what}: nothing was run, nothing is left")
    ran = restricted(NSBOX, "run", "--json", "--", "true")
    error = json.loads(ran.out)
    tap.equal((ran.rc, error["schema"], error["code"]), (125, "nsbox.error/1", "unsupported"),
              "--json: an error object says that the host is the cause", ran)
    check_text(tap, error["hint"].encode(), "--json")
    tap.equal(host.differences(0.5), [], "nothing is left on the host")
    ran = user(NSBOX, "run", "--rw", f"{PLACE}:/w", "--", "touch", "/w/ran")
    tap.equal((ran.rc, os.listdir(PLACE)), (0, ["ran"]), "control: without the restriction it runs", ran)
    os.unlink(os.path.join(PLACE, "ran"))


def doctor_says_so(tap):
    ran = restricted(NSBOX, "doctor")
    tap.equal(ran.rc, 2, "doctor exits 2: no box at all", ran)
    tap.ok(b"mount_namespace" in ran.out, "doctor names what failed", ran)
    if AS == "root":
        tap.ok(f"{SWITCH} is 1".encode() in ran.out, "doctor names the switch", ran)


if __name__ == "__main__":
    become_reaper()
    run_tests([what_is_refused_is_what_ubuntu_refuses, every_way_to_run_is_refused, doctor_says_so])
