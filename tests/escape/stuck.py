# as: root
"""A payload that no signal ends, for it waits inside the kernel (A10)."""

import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, environ, nsbox, run  # noqa: E402
from host import Snapshot, become_reaper, leftovers, parents  # noqa: E402
from tap import run_tests  # noqa: E402

PATIENCE = 5.0


class Frozen:
    """A file system of its own (ext4 in a file) that can be frozen: who writes then waits, deaf."""

    def __init__(self):
        self.image, self.place = os.path.join(SCRATCH, "ice.img"), os.path.join(SCRATCH, "ice")
        self.is_frozen = self.is_mounted = False

    def __enter__(self):
        os.makedirs(self.place, exist_ok=True)
        with open(self.image, "wb") as f:
            f.truncate(32 << 20)
        if run(["mkfs.ext4", "-q", "-F", self.image]).rc == 0:
            self.is_mounted = run(["mount", "-o", "loop", self.image, self.place]).rc == 0
        return self

    def freeze(self):
        self.is_frozen = run(["fsfreeze", "-f", self.place]).rc == 0
        return self.is_frozen

    def thaw(self):
        if self.is_frozen and run(["fsfreeze", "-u", self.place]).rc == 0:
            self.is_frozen = False

    def __exit__(self, *_):
        self.thaw()
        if self.is_mounted:
            run(["umount", self.place])
        os.unlink(self.image)


def missing_tool():
    return next((t for t in ("mkfs.ext4", "fsfreeze", "mount") if not shutil.which(t)), None)


def state_of(name):
    return [state for _, found, state in parents().values() if found == name]


def a_payload_that_waits_in_the_kernel(tap):
    title = "A10 a payload in uninterruptible sleep"
    if missing_tool():
        tap.skip(title, missing_tool())
        return
    with Frozen() as ice:
        if not ice.is_mounted:
            tap.skip(title, "loop devices and ext4")
            return
        folder = os.path.join(ice.place, "w")
        os.mkdir(folder)
        run_it(tap, title, ice, folder)


def run_it(tap, title, ice, folder):
    host = Snapshot()
    # without /bin/sh of its own name the payload is found whatever else runs here
    stuck = os.path.join(SCRATCH, "nsbox-stuck")
    shutil.copy(os.path.realpath("/bin/sh"), stuck)
    with subprocess.Popen([NSBOX, "run", "--json", "--timeout", "2", "--rw", f"{folder}:/w", "--ro", f"{stuck}:/nsbox-stuck",
                           "--", "/nsbox-stuck", "-c", "echo ready > /w/ready; sleep 0.5; echo more > /w/more"],
                          stdout=subprocess.PIPE, env=environ(), cwd=SCRATCH) as box:
        end = time.monotonic() + 5
        while not os.path.exists(f"{folder}/ready") and time.monotonic() < end:
            time.sleep(0.01)
        placeholders = set(os.listdir(folder)) - {"ready"}
        if not ice.freeze():
            box.kill()
            tap.skip(title, "a file system that can be frozen (fsfreeze)")
            return
        check_record(tap, box, time.monotonic())
    ice.thaw()
    end = time.monotonic() + 5
    while time.monotonic() < end and (state_of("nsbox-stuck") or placeholders & set(os.listdir(folder))):
        time.sleep(0.05)
    tap.ok(placeholders, "A10 control: there were placeholders in the frozen folder")
    tap.equal((state_of("nsbox-stuck"), placeholders & set(os.listdir(folder))), ([], set()),
              "A10 once the kernel lets it go the payload is dead, and the guardian removes the placeholders")
    leftovers(5)    # a sweep leaves a group alone in which a box is still dying
    nsbox("run", "--", "true")
    tap.equal(host.differences(3), [], "A10 after one more run nothing is left")
    os.unlink(stuck)


def check_record(tap, box, began):
    states = set()
    while box.poll() is None and time.monotonic() - began < 30:
        states.update(state_of("nsbox-stuck"))
        time.sleep(0.05)
    wall = time.monotonic() - began
    tap.ok("D" in states, "A10 control: the payload is in uninterruptible sleep", states)
    tap.ok("D" in state_of("nsbox-stuck"), "A10 and still is when nsbox has ended: no signal ends it")
    tap.within(wall, 2 + PATIENCE - 1.5, 2 + PATIENCE + 1, "A10 nsbox tells the verdict within its patience of 5 s")
    record = json.loads(box.stdout.read())
    tap.equal((box.returncode, record["verdict"], record["orphans_killed"]), (124, "timed_out", True),
              "A10 which is timed_out, with processes left", record)


if __name__ == "__main__":
    become_reaper()
    run_tests([a_payload_that_waits_in_the_kernel])
