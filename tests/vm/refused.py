# as: root
"""A host that forbids user namespaces by a switch of the kernel: refused with the remedy
that names the switch, never run weaker; with the switch on, the same command works.

Runs in the guests `nouserns` and `zerouserns` of tests/vm, for it sets the switches."""

import json
import os
import shutil
import sys
from dataclasses import dataclass

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, run  # noqa: E402
from host import Snapshot, become_reaper  # noqa: E402
from tap import run_tests  # noqa: E402

PLACE = os.path.join(SCRATCH, "w")
BECOME = ("setpriv", "--reuid", "nsboxtest", "--regid", "nsboxtest", "--init-groups", "--")
FLAGS = ((), ("--allow-degraded",), ("-p", "debug"))


@dataclass
class Switch:
    name: str           # as sysctl spells it
    bare: bytes         # what unshare(1) says without nsbox
    refused: tuple      # callers it holds for
    free: tuple         # callers it does not hold for

    @property
    def file(self):
        return "/proc/sys/" + self.name.replace(".", "/")


SWITCHES = {
    "nouserns": Switch("kernel.unprivileged_userns_clone", b"Operation not permitted", ("user",), ("root",)),
    "zerouserns": Switch("user.max_user_namespaces", b"No space left on device", ("user", "root"), ()),
}
SWITCH = SWITCHES[os.environ["NSBOX_TEST_VM"]]  # elsewhere than in a guest: a KeyError, and nothing done


def as_caller(caller, *argv):
    return run([*(BECOME if caller == "user" else ()), *argv])


def set_switch(text):
    with open(SWITCH.file, "w", encoding="ascii") as f:
        f.write(text)


def switch_is(text):
    with open(SWITCH.file, encoding="ascii") as f:
        return f.read().strip() == text


def fresh_place(caller):
    """An empty folder of the caller's own: what belongs to others cannot be shown writable."""
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    if caller == "user":
        shutil.chown(PLACE, "nsboxtest", "nsboxtest")


def the_switch_is_off(tap):
    tap.ok(switch_is("0"), f"{SWITCH.name} is 0")
    for caller in SWITCH.refused:
        ran = as_caller(caller, "unshare", "-U", "true")
        tap.ok(ran.rc != 0 and SWITCH.bare in ran.err, f"{caller} without nsbox: {SWITCH.bare.decode()}", ran)
    for caller in SWITCH.free:
        tap.equal(as_caller(caller, "unshare", "-U", "true").rc, 0, f"{caller} without nsbox: it works")


def check_refusal(tap, ran, what):
    tap.equal((ran.rc, ran.out), (125, b""), f"{what}: refused with 125", ran)
    tap.ok(b"user namespaces" in ran.err, f"{what}: says that it is user namespaces", ran)
    tap.ok(f"sysctl -w {SWITCH.name}=".encode() in ran.err, f"{what}: the remedy names the switch", ran)
    tap.equal(ran.err.count(b"\n"), 1, f"{what}: in one line", ran)
    tap.equal(os.listdir(PLACE), [], f"{what}: nothing was run, nothing is left")


def every_way_to_run_is_refused(tap):
    host = Snapshot()
    for caller in SWITCH.refused:
        fresh_place(caller)
        for flags in FLAGS:
            ran = as_caller(caller, NSBOX, "run", "--rw", f"{PLACE}:/w", *flags, "--", "touch", "/w/ran")
            check_refusal(tap, ran, f"{caller} {' '.join(flags) or 'no flags'}")
        ran = as_caller(caller, NSBOX, "run", "--json", "--", "true")
        error = json.loads(ran.out)
        tap.equal((ran.rc, error["schema"], error["code"], error["exit_status"]),
                  (125, "nsbox.error/1", "unsupported", 125), f"{caller} --json: an error object", ran)
        tap.ok(f"sysctl -w {SWITCH.name}=" in error["hint"], f"{caller} --json: its hint names the switch", ran)
        ran = as_caller(caller, NSBOX, "code", "-c", "print(1)")
        check_refusal(tap, ran, f"{caller} nsbox code")
    tap.equal(host.differences(1), [], "nothing is left on the host")


def doctor_names_the_switch(tap):
    for caller in SWITCH.refused:
        ran = as_caller(caller, NSBOX, "doctor")
        tap.equal(ran.rc, 2, f"{caller}: doctor exits 2: no box at all", ran)
        tap.ok(f"{SWITCH.name} is 0".encode() in ran.out, f"{caller}: doctor names the switch", ran)
        tap.ok(f"sysctl -w {SWITCH.name}=".encode() in ran.out, f"{caller}: and the remedy", ran)


def works(tap, caller, why):
    fresh_place(caller)
    ran = as_caller(caller, NSBOX, "run", "--rw", f"{PLACE}:/w", "--", "touch", "/w/ran")
    tap.equal((ran.rc, os.listdir(PLACE)), (0, ["ran"]), f"control: {caller} {why}", ran)


def others_are_not_held_up(tap):
    for caller in SWITCH.free:
        works(tap, caller, "is not meant by the switch, and runs")


def the_remedy_helps(tap):
    set_switch("1" if SWITCH.free else "10000")
    try:
        for caller in ("user", "root"):
            works(tap, caller, "runs once the switch is on")
    finally:
        set_switch("0")


if __name__ == "__main__":
    become_reaper()
    run_tests([the_switch_is_off, every_way_to_run_is_refused, doctor_names_the_switch,
               others_are_not_held_up, the_remedy_helps])
