# as: root user userns container
"""Memory: by the cgroup where there is a controller, watched where there is none (E26 A11)."""

import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, IN_BOX, SCRATCH, attack, box, boxed_attack, has_writable_binds, nsbox, parse_record  # noqa: E402
from host import become_reaper, kill_leftovers, leftovers  # noqa: E402
from tap import needs, run_tests  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
WITH_ATTACK = ("--ro", f"{ATTACK}:{IN_BOX}")
# Where memory is watched: what may be taken between two looks. The smaller is what the code is good
# for (2 ms of page faults, and the time it takes to kill); the larger one that of a machine on which the
# launcher does not get its turn.
OVERSHOOT, OVERSHOOT_OF_A_BUSY_HOST = 48 * MIB, 768 * MIB
NODE = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")


def is_watched(ran):
    return ran["enforced"]["memory"] == "userspace"


def check_peaks(tap, what, peaks, limit, watched):
    """The record's peaks, or the true ones, of several runs."""
    tap.note(f"{what}: peaks {[round(p / MIB, 1) for p in peaks]} MiB of {limit / MIB:g}, "
             f"{'watched' if watched else 'by the cgroup'}")
    tap.within(min(peaks) - limit, -limit, OVERSHOOT if watched else 0, f"E26 {what}: over by 48 MiB at most when watched")
    tap.within(max(peaks) - limit, -limit, OVERSHOOT_OF_A_BUSY_HOST if watched else 0,
               f"E26 {what}: and bounded on a busy host as well")


def clean(tap, what):
    if not tap.equal(leftovers(2), [], f"{what}: nothing survives"):
        kill_leftovers()


def has_two_gigabytes():
    with open("/proc/meminfo", encoding="utf-8") as f:
        return int(f.readline().split()[1]) * 1024 > 2 * GIB


@needs(has_two_gigabytes, "2 GiB of memory: a smaller host refuses a gigabyte by itself")
def a_gigabyte_in_64_mib(tap):
    """The allocation succeeds, as it does under memory.max; using it does not."""
    control = nsbox("code", "-m", "2G", "-c", "b = 'x' * 10**9; print(len(b))")
    tap.equal(control.text(), "1000000000", "E26 control: with 2 GiB it works", control)
    peaks = []
    for _ in range(3):
        ran = nsbox("code", "-m", "64M", "--json", "-c", "b = 'x' * 10**9")
        ran.record = parse_record(ran)
        tap.equal((ran["verdict"], ran.rc, ran["signal"]), ("out_of_memory", 123, 9),
                  "E26 A11 a gigabyte in 64 MiB: out_of_memory, exit 123", ran)
        tap.equal(str(ran["reason"]).split(":")[0], "memory", "E26 the reason says memory", ran)
        peaks.append(ran["usage"]["memory_peak_bytes"])
    check_peaks(tap, "Python's gigabyte", peaks, 64 * MIB, is_watched(ran))
    clean(tap, "E26 a gigabyte")


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def what_a_hog_really_had(tap):
    """Not what was sampled: it says itself how far it came, in a file of the host."""
    place = os.path.join(SCRATCH, "told")
    for limit in (64, 256):
        told = []
        for _ in range(3):
            shutil.rmtree(place, ignore_errors=True)
            os.makedirs(place)
            ran = box([*WITH_ATTACK, "-m", f"{limit}M", "--rw", f"{place}:/w"], IN_BOX, "eat-and-tell", "/w/told",
                      str(4 * GIB))
            tap.equal((ran["verdict"], ran.rc), ("out_of_memory", 123), f"E26 4 GiB in {limit} MiB: out_of_memory", ran)
            with open(f"{place}/told", "rb") as f:
                told.append(struct.unpack("Q", f.read(8))[0])
        check_peaks(tap, f"{limit} MiB", told, limit * MIB, is_watched(ran))
    clean(tap, "E26 hogs that tell")


def many_small_hogs(tap):
    for act in (("eat", str(4 * GIB)), ("eat-many", "16", str(64 * MIB))):
        ran = box([*WITH_ATTACK, "-m", "128M", "--timeout", "20"], IN_BOX, *act)
        tap.equal((ran["verdict"], ran.rc), ("out_of_memory", 123), f"E26 {act[0]} in 128 MiB: never ENOMEM before", ran)
    clean(tap, "E26 small hogs")


@needs(has_two_gigabytes, "2 GiB of memory: a smaller host refuses to map 900 MiB")
def what_is_reserved_is_not_used(tap):
    for size in (64, 512):
        got, ran = boxed_attack(["-m", f"{size}M"], "reserve", str(900 * MIB), str(64 * GIB))
        tap.equal(got, "ok", f"E26 900 MiB writable and 64 GiB reserved, untouched, in {size} MiB: all is well", ran)
    tap.equal(attack("reserve", str(900 * MIB), str(64 * GIB)), "ok", "E26 control: and without a box")


@needs(lambda: NODE, "node")
def node_runs_with_little(tap):
    for size in ("64M", "128M", "512M"):
        ran = nsbox("code", "--language", "javascript", "--interpreter", NODE, "-m", size, "-c",
                    "console.log([1, 2, 3].map(x => x * 2).join())")
        tap.equal((ran.rc, ran.text()), (0, "2,4,6"), f"E26 node runs with -m {size}", ran)


def oom_kills():
    with open("/proc/vmstat", encoding="utf-8") as f:
        return next((int(line.split()[1]) for line in f if line.startswith("oom_kill ")), None)


def shm_is_memory(tap):
    """dd into /dev/shm: ends at the size of the tmpfs or at the limit of the box, never with the host's OOM killer."""
    killed = oom_kills()
    ran = box(["-m", "64M", "--timeout", "20"], "sh", "-c", "dd if=/dev/zero of=/dev/shm/x bs=1M count=4096; echo dd $?")
    if ran["verdict"] == "exited":
        tap.equal(ran["stdout"], "dd 1\n", "E26 dd into /dev/shm ends", ran)
        tap.ok("No space left on device" in ran["stderr"], "E26 with ENOSPC", ran)
    else:
        tap.equal((ran["verdict"], ran.rc), ("out_of_memory", 123), "E26 dd into /dev/shm ends with the box", ran)
    if is_watched(ran) and killed is not None:
        tap.equal(oom_kills(), killed, "E26 and the host's OOM killer had nothing to do")
    clean(tap, "E26 dd into /dev/shm")


def more_than_the_host_would_give(tap):
    """Beyond the bound of one process there is no verdict but the program's own."""
    ran = nsbox("code", "-m", "64M", "--json", "-c", "b = bytearray(1 << 45)")
    ran.record = parse_record(ran)
    tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 1), "E26 a request for 32 TiB is refused", ran)
    tap.ok("MemoryError" in ran["stderr"], "E26 and the program is told", ran)


if __name__ == "__main__":
    become_reaper()
    run_tests([a_gigabyte_in_64_mib, what_a_hog_really_had, many_small_hogs, what_is_reserved_is_not_used,
               node_runs_with_little, shm_is_memory, more_than_the_host_would_give])
