# as: rootonly
"""Root in a user namespace that maps the host's root alone: the box would have no other
id, and as the host's root it could write the host's settings. Refused, with a remedy."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import SCRATCH, attack, nsbox  # noqa: E402
from host import Snapshot, become_reaper  # noqa: E402
from tap import run_tests  # noqa: E402


def the_danger_is_real(tap):
    tap.equal(attack("open-write", "/proc/sys/kernel/core_pattern"), "ok",
              "E06 without a box: root of such a namespace can open core_pattern for writing")


def every_way_to_run_is_refused(tap):
    place = os.path.join(SCRATCH, "w")
    os.makedirs(place, exist_ok=True)
    host = Snapshot()
    for flags in ((), ("--allow-degraded",), ("-p", "debug")):
        what = " ".join(flags) or "no flags"
        ran = nsbox("run", "--rw", f"{place}:/w", *flags, "--", "touch", "/w/ran")
        tap.equal((ran.rc, ran.out), (125, b""), f"E44 {what}: refused with 125", ran)
        tap.ok(b"root" in ran.err and b"ordinary user" in ran.err, f"E44 {what}: says why and what to do", ran)
        tap.equal(ran.err.count(b"\n"), 1, f"E44 {what}: in one line", ran)
        tap.equal(os.listdir(place), [], f"E44 {what}: nothing was run, nothing is left")
    tap.equal(host.differences(0.5), [], "nothing is left on the host")


if __name__ == "__main__":
    become_reaper()
    run_tests([the_danger_is_real, every_way_to_run_is_refused])
