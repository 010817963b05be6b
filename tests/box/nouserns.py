# as: nouserns
"""A host without user namespaces: refused with a remedy, never run weaker."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import SCRATCH, attack, nsbox, run  # noqa: E402
from host import Snapshot, become_reaper  # noqa: E402
from tap import run_tests  # noqa: E402


def the_host_really_has_none(tap):
    tap.equal(attack("unshare", "user"), "errno=EPERM", "unshare of a user namespace is refused here")
    tap.equal(attack("clone", "user"), "errno=EPERM", "clone into one as well")
    tap.equal(attack("clone3", "user"), "errno=ENOSYS", "clone3 is not there")
    tap.equal(run(["true"]).rc, 0, "ordinary programs run")


def every_way_to_run_is_refused(tap):
    place = os.path.join(SCRATCH, "w")
    os.makedirs(place, exist_ok=True)
    host = Snapshot()
    for flags in ((), ("--allow-degraded",), ("-p", "debug"), ("--json",), ("--net", "disabled")):
        what = " ".join(flags) or "no flags"
        ran = nsbox("run", "--rw", f"{place}:/w", *flags, "--", "touch", "/w/ran")
        tap.equal(ran.rc, 125, f"{what}: refused with 125", ran)
        text = ran.err
        if "--json" in flags and ran.out:
            record = json.loads(ran.out)
            tap.equal((record["schema"], record["code"], record["exit_status"]),
                      ("nsbox.error/1", "unsupported", 125), f"{what}: an error object says so", ran)
            text += ran.out
        else:
            tap.equal(ran.out, b"", f"{what}: nothing on stdout", ran)
        tap.ok(b"user namespace" in text or b"CLONE_NEWUSER" in text, f"{what}: says that it is user namespaces", ran)
        tap.ok(any(word in text for word in (b"sysctl", b"max_user_namespaces", b"doctor",
                                             b"unprivileged_userns")), f"{what}: and what to do", ran)
        tap.equal(ran.err.count(b"\n"), 1 if ran.err else 0, f"{what}: in one line", ran)
        tap.ok(not os.path.exists(f"{place}/ran"), f"{what}: nothing was run")
        tap.equal(os.listdir(place), [], f"{what}: nothing is left in the folder")
    tap.equal(host.differences(0.5), [], "nothing is left on the host")


def code_is_refused_as_well(tap):
    ran = nsbox("code", "-c", "print(1)")
    tap.equal((ran.rc, ran.out), (125, b""), "nsbox code is refused with 125", ran)


def doctor_says_so(tap):
    ran = nsbox("doctor")
    tap.equal(ran.rc, 2, "nsbox doctor exits 2: not at all", ran)
    tap.ok(b"user" in ran.out and b"namespace" in ran.out, "and names user namespaces", ran)


if __name__ == "__main__":
    become_reaper()
    run_tests([the_host_really_has_none, every_way_to_run_is_refused, code_is_refused_as_well, doctor_says_so])
