# as: root
"""Limits that the kernel enforces by the controllers of cgroup v2 (E25-E28 E52 A1 A4).

Runs in a guest of tests/vm, where all controllers are there: every figure is exact
where the kernel's is, and a record that says less than `kernel` is a failure."""

import json
import os
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, IN_BOX, NSBOX, SCRATCH, box, environ, nsbox, parse_record, run  # noqa: E402
from host import become_reaper, cgroup_folders, kill_leftovers, leftovers  # noqa: E402
from tap import EMULATED, run_tests  # noqa: E402

MIB = 1 << 20
TOP = "/sys/fs/cgroup"
WITH_ATTACK = ("--ro", f"{ATTACK}:{IN_BOX}")
BY_KERNEL = {"memory": "kernel", "pids": "kernel", "cpu": "kernel"}
# A private view of the cgroups in which nothing can be written or made.
READ_ONLY = ("unshare", "-m", "sh", "-c", f'mount -o remount,bind,ro {TOP} && exec "$@"', "sh")


def clean(tap, what):
    if not tap.equal(leftovers(2), [], f"{what}: nothing survives"):
        kill_leftovers()
    tap.equal(cgroup_folders(), set(), f"{what}: no cgroup is left")


def strengths(record):
    return {name: record["enforced"][name] for name in BY_KERNEL}


def the_guest_has_the_controllers(tap):
    tap.ok(os.environ.get("NSBOX_TEST_VM"), "this is a guest of tests/vm")
    with open(f"{TOP}/cgroup.controllers", encoding="ascii") as f:
        tap.equal({"cpu", "memory", "pids", "io"} - set(f.read().split()), set(),
                  "the unified hierarchy has cpu, memory, pids and io")


def doctor_is_content(tap):
    ran = nsbox("doctor", "--json")
    report = json.loads(ran.out)
    tap.equal(ran.rc, 0, "doctor exits 0: the local tier works fully", ran)
    weak = [c["name"] for c in report["checks"] if c["name"].endswith("_limit") and c["strength"] != "kernel"]
    tap.equal(weak, [], "doctor: every limit is the kernel's", ran)


def the_record_says_kernel(tap):
    ran = box(["--require", "kernel"], "true")
    tap.equal((ran.rc, strengths(ran.record)), (0, BY_KERNEL), "E52 --require kernel works", ran)
    tap.ok((ran["usage"]["memory_peak_bytes"] or 0) > 0, "the peak of memory was read", ran)


def memory_is_exact(tap):
    ran = nsbox("code", "-m", "64M", "--json", "-c", "b='x'*10**9")
    ran.record = parse_record(ran)
    tap.equal((ran["verdict"], ran.rc), ("out_of_memory", 123), "E26 1 GB of a string in 64 MiB", ran)
    tap.within(ran["usage"]["memory_peak_bytes"], 32 * MIB, 64 * MIB, "E26 its peak: not a byte above", ran)
    tap.equal(strengths(ran.record), BY_KERNEL, "E26 by the kernel", ran)
    ran = box([*WITH_ATTACK, "-m", "64M", "--require", "kernel"], IN_BOX, "eat-many", "4", str(64 * MIB))
    tap.equal((ran["verdict"], ran.rc), ("out_of_memory", 123), "E26 four that eat together", ran)
    tap.within(ran["usage"]["memory_peak_bytes"], 32 * MIB, 64 * MIB, "E26 together not a byte above", ran)
    ran = box([*WITH_ATTACK, "-m", "64M", "--require", "kernel"], IN_BOX, "eat", str(32 * MIB))
    tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 0), "E26 half of it is fine", ran)
    clean(tap, "E26")


def a_fork_bomb_is_short(tap):
    bomb = ":(){ :|:& };:"
    ran = box(["--require", "kernel"], "bash", "-c", bomb + "; sleep 20")
    tap.note(f"cost of a fork bomb until its end: {ran.wall:.2f} s")
    tap.equal((ran["verdict"], ran.rc), ("pids_limit", 123), "E25 a fork bomb: pids_limit", ran)
    tap.takes(ran.wall, 0, 2, "E25 in less than 2 s", ran.wall)
    # its first shell is done at once, and a box ends with its program
    ran = box(["--require", "kernel"], "bash", "-c", bomb)
    tap.among((ran["verdict"], ran.rc), (("exited", 0), ("pids_limit", 123)), "E25 one left behind ends too", ran)
    tap.takes(ran.wall, 0, 2, "E25 in less than 2 s as well", ran.wall)
    tap.equal(run(["sh", "-c", "true | cat; echo $?"]).text(), "0", "E25 the host can fork")
    ran = box([*WITH_ATTACK, "--pids", "16", "--require", "kernel"], IN_BOX, "count-forks", "12")
    tap.equal(ran["stdout"].strip(), "12", "E25 below the limit all is well", ran)
    clean(tap, "E25")


FILL = """
import os, time
def try_fork():
    try:
        pid = os.fork()
    except BlockingIOError:
        return False
    if not pid:
        time.sleep(30)
        os._exit(0)
    return True
while try_fork():
    pass
for _ in range(%d):
    time.sleep(0.7)
    try_fork()
time.sleep(2.5)
"""


def who_meets_the_limit_once_goes_on(tap):
    """A full box is killed for what it keeps trying, with pauses too; not for being full."""
    ran = box(["--pids", "16", "--require", "kernel"], "/usr/bin/python3", "-c", FILL % 20)
    tap.equal((ran["verdict"], ran.rc), ("pids_limit", 123), "E25 refused every 0.7 s in a full box: pids_limit", ran)
    tap.takes(ran.wall, 1, 4, "E25 after the second or third time", ran.wall)
    ran = box(["--pids", "16", "--require", "kernel"], "/usr/bin/python3", "-c", FILL % 0)
    tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 0), "E25 refused once in a full box: it goes on", ran)
    clean(tap, "E25 a full box")


def a_share_of_a_core_is_kept(tap):
    """cpu.max gives 20 ms in each 100 ms. What the box's making takes counts as well, and is
    more of two seconds where it is emulated: five then."""
    seconds = 5 if EMULATED else 2
    ran = box(["--cpus", "0.2", "--timeout", str(seconds), "--require", "kernel"], "sh", "-c", "while :; do :; done")
    used = ran["usage"]["user_ms"] + ran["usage"]["system_ms"]
    tap.equal(ran["verdict"], "timed_out", "E28 a busy loop runs out of time", ran)
    tap.within(used / ran["usage"]["wall_ms"], 0.18, 0.22, f"E28 --cpus 0.2: a fifth of a core over {seconds} s", ran)
    ran = box(["--cpus", "0", "--timeout", "2"], "sh", "-c", "while :; do :; done")
    used = ran["usage"]["user_ms"] + ran["usage"]["system_ms"]
    tap.within(used / ran["usage"]["wall_ms"], 0.4, 1.1, "E28 without it the same loop gets more", ran)
    clean(tap, "E28")


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return next((int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS")), 0)


def a_flood_of_output_costs_nothing(tap):
    with open(os.path.join(SCRATCH, "flood"), "w+b") as out:
        proc = subprocess.Popen([NSBOX, "run", "--json", "--output-limit", "1M", "--timeout", "5", "--", "yes"],
                                stdout=out, env=environ(), cwd=SCRATCH)
        sizes = []
        while proc.poll() is None:
            sizes.append(resident(proc.pid))
            time.sleep(0.1)
        out.seek(0)
        record = json.loads(out.read())
    sizes = [s for s in sizes[3:] if s]       # the first ones may be those before its exec
    tap.note(f"cost of {record['stdout_bytes'] / 1e9:.1f} GB of output: {max(sizes) / 1024:.0f} KiB resident")
    tap.equal(record["verdict"], "timed_out", "A4 yes is held up by nothing but its time")
    tap.ok(record["stdout_bytes"] > 16 * MIB, "A4 it wrote very much more than was kept", record["stdout_bytes"])
    tap.ok(len(record["stdout"]) <= MIB, "A4 1 MiB was kept", len(record["stdout"]))
    tap.ok(len(sizes) > 10, "A4 nsbox was looked at all along", len(sizes))
    tap.within(max(sizes), 1, 8 * MIB, "A4 nsbox stays below 8 MiB, the record included", sizes)
    early = sizes[len(sizes) // 4:len(sizes) // 2]
    tap.within(max(early) - min(early), 0, MIB // 4, "A4 and does not grow while it runs", sizes)


def read_only_cgroups_are_never_called_kernel(tap):
    mark = os.path.join(SCRATCH, "ran")
    os.makedirs(mark, exist_ok=True)
    ran = run([*READ_ONLY, "mkdir", f"{TOP}/probe"])
    tap.ok(ran.rc != 0 and b"Read-only" in ran.err, "E52 control: nothing can be made there", ran)
    ran = run([*READ_ONLY, NSBOX, "run", "--require", "kernel", "--rw", f"{mark}:/w", "--", "touch", "/w/x"])
    tap.equal((ran.rc, ran.out), (125, b""), "E52 --require kernel: refused with 125", ran)
    tap.ok(b"limits.memory" in ran.err and b"userspace" in ran.err, "E52 and says what and why", ran)
    tap.ok(any(word in ran.err for word in (b"doctor", b"delegate", b"writable cgroup")), "E52 and what to do", ran)
    tap.equal(os.listdir(mark), [], "E52 nothing was run")
    # less than a core: a whole one is no limit where there is only one
    ran = run([*READ_ONLY, NSBOX, "run", "--json", "--cpus", "0.5", "--rw", f"{mark}:/w", "--", "touch", "/w/x"])
    ran.record = parse_record(ran)
    tap.equal((ran.rc, strengths(ran.record)), (0, dict.fromkeys(BY_KERNEL, "userspace")),
              "E52 without it the record says userspace", ran)
    tap.equal(os.listdir(mark), ["x"], "E52 control: and the same command runs")
    ran = run([*READ_ONLY, NSBOX, "run", "--json", *WITH_ATTACK, "-m", "64M", "--", IN_BOX, "eat", str(1 << 30)])
    ran.record = parse_record(ran)
    tap.equal((ran["verdict"], ran.rc, ran["enforced"]["memory"]), ("out_of_memory", 123, "userspace"),
              "E52 the fallback holds the memory", ran)
    clean(tap, "E52")


def least_ms(commands, rounds):
    """The best of each command; in turn, so that a slow moment of the machine hits all."""
    walls = [[] for _ in commands]
    for _ in range(rounds):
        for argv, wall in zip(commands, walls):
            wall.append(run(argv).wall * 1000)
    return [min(w) for w in walls]


def what_the_limits_cost(tap):
    """A figure for people: on a machine that is emulated and shared a threshold would lie."""
    sh = ("unshare", "-m", "sh", "-c", 'exec "$@"', "sh")
    true = (NSBOX, "run", "--", "true")
    with_limits, without = least_ms([[*sh, *true], [*READ_ONLY, *true]], 15)
    empty_with, empty_without = least_ms([[*sh, "true"], [*READ_ONLY, "true"]], 15)
    ours, plain = with_limits - empty_with, without - empty_without
    tap.note(f"cost of `nsbox run true` with a cgroup and limits, relative to without: {ours / plain:.2f} "
             f"({ours:.1f} ms to {plain:.1f} ms)")
    tap.ok(with_limits > 0 and without > 0, "both could be measured")


if __name__ == "__main__":
    become_reaper()
    run_tests([the_guest_has_the_controllers, doctor_is_content, the_record_says_kernel, memory_is_exact,
               a_fork_bomb_is_short,
               who_meets_the_limit_once_goes_on, a_share_of_a_core_is_kept, a_flood_of_output_costs_nothing,
               read_only_cgroups_are_never_called_kernel, what_the_limits_cost])
