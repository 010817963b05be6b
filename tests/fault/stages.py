# as: root user
"""Either side dies after every stage, every operation fails: nothing is left (A20)."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, REPO, SCRATCH, environ, run_to_files as run  # noqa: E402
from host import Snapshot, become_reaper, descendants, kill_leftovers, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

FAULTY = os.environ.get("NSBOX_FAULTY") or os.path.join(REPO, "build/fault/nsbox")
PLACE = os.path.join(SCRATCH, "fault")
ENOSPC, EPERM, ENOMEM, EINTR = 28, 1, 12, 4
TEXTS = {ENOSPC: b"No space left on device", EPERM: b"Operation not permitted",
         ENOMEM: b"emory", EINTR: b"nterrupted system call"}
MOST_OPERATIONS = 2000


def stages():
    """[(name, side)] in order, from the table that the code is built from."""
    with open(os.path.join(REPO, "runtime/stage.h"), encoding="utf-8") as f:
        return re.findall(r"^\s*X\((\w+),\s*(PARENT|CHILD|INIT),", f.read(), re.M)


def fresh():
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)


def argv(*flags):
    """A box with one of everything: a writable folder (placeholders), tmpfs, artifacts."""
    return [FAULTY, "run", "--rw", f"{PLACE}:/w", "--tmpfs", "/scratch:1M", "--timeout", "20",
            "--net", "filtered", "--allow-out", "203.0.113.1", "--publish", "47113:80",
            *flags, "--", "touch", "/w/ran"]


def clean(tap, host, what, seconds=1.0):
    # The empty cgroup of a launcher that died by SIGKILL has nobody left to remove it:
    # the next box does, when it finds that the lock on it is free (the child may hold it
    # for a moment longer).
    end = time.monotonic() + seconds
    for _ in range(5):
        run([NSBOX, "run", "--", "true"])
        new = host.differences(seconds / 5)
        if not new:
            break
    # placeholders of protected names are removed by a guardian that outlives the launcher
    while set(os.listdir(PLACE)) - {"ran"} and time.monotonic() < end:
        time.sleep(0.02)
    left = sorted(set(os.listdir(PLACE)) - {"ran"})
    tap.equal(new + left, [], f"{what}: nothing is left of it")
    if new:
        kill_leftovers()
    return not os.path.exists(f"{PLACE}/ran")


def the_fault_build_works_without_a_fault(tap):
    fresh()
    ran = run(argv())
    tap.equal((ran.rc, ran.err), (0, b""), "without a fault the box runs", ran)
    tap.ok(os.path.exists(f"{PLACE}/ran"), "and leaves the mark")
    with open(NSBOX, "rb") as f:
        tap.ok(b"NSBOX_FAULT" not in f.read(), "the product knows no faults")


def the_child_dies_after_each_stage(tap):
    for name, side in stages():
        if side != "CHILD" or name == "init":
            continue
        fresh()
        host = Snapshot()
        ran = run(argv(), env={"NSBOX_FAULT": f"stage={name}:kill-child"})
        what = f"the child dies after {name}"
        tap.equal((ran.rc, ran.out), (125, b""), f"{what}: 125, never a success", ran)
        tap.ok(ran.err.startswith(b"nsbox: ") and ran.err.count(b"\n") == 1, f"{what}: one line", ran)
        tap.ok(clean(tap, host, what), f"{what}: the payload did not run")


def the_launcher_dies_after_each_stage(tap):
    for name, side in stages():
        if side == "INIT" or name == "init":
            continue
        fresh()
        host = Snapshot()
        ran = run(argv(), env={"NSBOX_FAULT": f"stage={name}:kill-parent"})
        what = f"the launcher dies after {name}"
        tap.equal(ran.rc, -9, f"{what}: it was killed", ran)
        tap.ok(clean(tap, host, what), f"{what}: the payload did not run")


def a_stopped_child_is_left_to_nobody(tap):
    """The child stands still for ever after a stage; the launcher is then killed."""
    for name, side in stages():
        if side != "CHILD" or name == "init":
            continue
        for number in (signal.SIGKILL, signal.SIGTERM):
            fresh()
            host = Snapshot()
            proc = subprocess.Popen(argv(), env=environ({"NSBOX_FAULT": f"stage={name}:stop"}),
                                    cwd=SCRATCH, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.15)
            what = f"stopped after {name}, launcher gets {number.name}"
            tap.equal(proc.poll(), None, f"{what}: it was still waiting")
            tap.ok(descendants(proc.pid), f"{what}: the child is there")
            proc.send_signal(number)
            try:
                proc.wait(timeout=5)
            except subprocess.TimeoutExpired:
                proc.kill()
                proc.wait()
                tap.ok(False, f"{what}: the launcher ends")
            tap.ok(clean(tap, host, what), f"{what}: the payload did not run")


def a_stopped_child_runs_into_the_time_limit(tap):
    fresh()
    host = Snapshot()
    argv_short = [a if a != "20" else "1" for a in argv()]
    try:
        ran = run(argv_short, env={"NSBOX_FAULT": "stage=mounts:stop"}, limit=15)
        tap.among(ran.rc, (124, 125), "a set-up that stands still ends by the time limit", ran)
    except AssertionError as e:
        tap.ok(False, "a set-up that stands still ends by the time limit", e)
    tap.ok(clean(tap, host, "a set-up that stands still"), "its payload did not run")


def inits_of(launcher):
    return [pid for pid, _, _ in descendants(launcher) if is_boxed(pid)]


def a_placeholder_that_vanishes_is_an_error(tap):
    """Without it the mask has nothing to cover, and the box could make the name."""
    for removed, want in ((None, 0), (".envrc", 125), (".git", 125)):
        fresh()
        what = f"{removed or 'nothing'} is removed while the box is built"
        proc = subprocess.Popen(argv(), env=environ({"NSBOX_FAULT": "stage=ids:pause"}),
                                cwd=SCRATCH, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        end = time.monotonic() + 0.9
        while not (inits_of(proc.pid) and os.path.isdir(f"{PLACE}/.envrc")) and time.monotonic() < end:
            time.sleep(0.01)
        tap.ok(os.path.isdir(f"{PLACE}/.envrc") and os.path.isdir(f"{PLACE}/.git"),
               f"{what}: the placeholders are there")
        if removed:
            os.rmdir(f"{PLACE}/{removed}")
        err = proc.communicate(timeout=10)[1]
        tap.equal(proc.returncode, want, f"{what}: {want}", err)
        tap.equal(os.path.exists(f"{PLACE}/ran"), not removed, f"{what}: whether the payload ran")
        if removed:
            tap.ok(f"/w/{removed}: No such file".encode() in err and b"run it again" in err,
                   f"{what}: told which and what to do", err)
        tap.equal(sorted(set(os.listdir(PLACE)) - {"ran"}), [], f"{what}: nothing is left")


def every_operation_fails_once(tap):
    """Until an index beyond the plan, which is a run without a fault."""
    for error in (ENOSPC, EPERM, ENOMEM):
        wrong, n = [], 0
        fresh()
        host = Snapshot()
        while n < MOST_OPERATIONS:
            ran = run(argv(), env={"NSBOX_FAULT": f"op={n}:{error}"})
            if ran.rc == 0:
                break
            good = (ran.rc == 125 and not ran.out and ran.err.startswith(b"nsbox: ")
                    and ran.err.count(b"\n") == 1 and TEXTS[error] in ran.err)
            if not good or os.path.exists(f"{PLACE}/ran"):
                wrong.append(f"operation {n}: {ran}")
            new = [] if len(wrong) > 3 else host.differences(0.5)
            if new:
                wrong.append(f"operation {n} left {new}")
                kill_leftovers()
            n += 1
        tap.equal(wrong[:3], [], f"each of {n} operations fails with errno {error}: 125, told, clean")
        tap.within(n, 20, MOST_OPERATIONS - 1, f"the plan has so many operations ({n})")
        tap.ok(os.path.exists(f"{PLACE}/ran"), "an index beyond the plan runs the payload")


def killed_at_any_moment(tap):
    """SIGKILL to the launcher at random times of its life, set-up and clean-up included."""
    rng = random.Random(4711)
    fresh()
    host = Snapshot()
    dirty, died = [], 0
    start = time.monotonic()
    run([NSBOX, "run", "--rw", f"{PLACE}:/w", "--", "true"])
    usual = time.monotonic() - start
    for _ in range(150):
        delay = rng.uniform(0, 1.2 * usual)
        proc = subprocess.Popen([NSBOX, "run", "--rw", f"{PLACE}:/w", "--", "true"], env=environ(),
                                cwd=SCRATCH, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        proc.kill()
        died += proc.wait() == -9
        new = leftovers(1.0)
        if new:
            dirty.append((delay, new))
            kill_leftovers()
    tap.ok(died > 10, f"the launcher was killed {died} times of 150")
    tap.equal(dirty[:3], [], "no process is left, whenever it died")
    clean(tap, host, "150 killed launchers", 2)


def is_boxed(pid):
    """Of a box, not a program that the launcher asks about an interpreter."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def the_box_killed_at_any_moment(tap):
    """SIGKILL to what the launcher started: never a success, never a hang."""
    rng = random.Random(42)
    fresh()
    host = Snapshot()
    wrong, hit = [], 0
    for _ in range(60):
        proc = subprocess.Popen([NSBOX, "run", "--timeout", "10", "--", "sleep", "0.2"], env=environ(),
                                cwd=SCRATCH, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, 0.05))
        victims = [pid for pid, _, _ in descendants(proc.pid) if is_boxed(pid)]
        for pid in victims[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                victims = []
        try:
            rc = proc.wait(timeout=8)
        except subprocess.TimeoutExpired:
            proc.kill()
            rc = "hang"
        hit += bool(victims)
        if victims and rc == 0:
            wrong.append("success")
        elif rc not in (0, 125, 137):
            wrong.append(rc)
    tap.ok(hit > 10, f"a process of the box was killed {hit} times of 60")
    tap.equal(wrong[:5], [], "125 or 137, never a success and never a hang")
    clean(tap, host, "60 killed boxes", 2)


if __name__ == "__main__":
    become_reaper()
    run_tests([the_fault_build_works_without_a_fault, the_child_dies_after_each_stage,
               the_launcher_dies_after_each_stage, a_stopped_child_is_left_to_nobody,
               a_stopped_child_runs_into_the_time_limit, a_placeholder_that_vanishes_is_an_error,
               every_operation_fails_once, killed_at_any_moment, the_box_killed_at_any_moment])
