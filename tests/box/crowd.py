# as: root user
"""1,000 boxes alive at once, 32 busy launchers, and bad neighbours of a good box (A1 A19)."""

import json
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, IN_BOX, NSBOX, SCRATCH, box, environ  # noqa: E402
from host import Snapshot, become_reaper, descendants, kill_leftovers, leftovers  # noqa: E402
from tap import needs, run_tests  # noqa: E402

BOXES = int(os.environ.get("NSBOX_TEST_BOXES", "1000"))
MIB = 1 << 20
WITH_ATTACK = ("--ro", f"{ATTACK}:{IN_BOX}")


def number_in(path):
    with open(path, encoding="utf-8") as f:
        return int(f.read().split()[0])


def memory_available():
    with open("/proc/meminfo", encoding="utf-8") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))


def host_is_large_enough():
    """3 processes and 10 descriptors of ours for each; a few MiB with what the kernel keeps."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    tasks = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    wanted = 4 * BOXES
    if hard != resource.RLIM_INFINITY and hard < 2 * BOXES + 200:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * BOXES + 200), hard))
    return (memory_available() >= 4 << 30 and number_in("/proc/sys/kernel/pid_max") > 2 * wanted and
            number_in("/proc/sys/kernel/threads-max") > 2 * wanted and
            (tasks == resource.RLIM_INFINITY or tasks > wanted) and
            number_in("/proc/sys/user/max_net_namespaces") > BOXES)


def start(*args, **how):
    return subprocess.Popen([NSBOX, "run", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environ(), cwd=SCRATCH, **how)


def pss(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0    # root's boxes hide it from nobody; another user's may


def end_all(procs):
    """[(status, stderr)] that are not those of a payload that was asked to end."""
    for proc in procs:
        proc.terminate()
    wrong = []
    for proc in procs:
        _, err = proc.communicate(timeout=120)
        if proc.returncode != 128 + 15:
            wrong.append((proc.returncode, err))
    return wrong


@needs(host_is_large_enough, "4 GiB of free memory and limits for 4,000 processes, 2,200 descriptors")
def a_thousand_boxes_at_once(tap):
    host = Snapshot()
    before, began = memory_available(), time.monotonic()
    procs = [start("-q", "--timeout", "300", "--", "sh", "-c", "echo ready; exec sleep 290")
             for _ in range(BOXES)]
    late = [proc.stdout.readline() for proc in procs]
    started = time.monotonic() - began
    below = descendants()
    sleeping = [pid for pid, name, state in below if name == "sleep" and state != "Z"]
    taken = before - memory_available()
    tap.equal(late.count(b"ready\n"), BOXES, f"{BOXES} boxes start",
              [proc.stderr.read1() for proc, word in zip(procs, late) if word != b"ready\n"][:3])
    tap.equal(len(sleeping), BOXES, "all of them are alive at the same moment")
    around = sum(pss(pid) for pid, name, _ in below if name != "sleep")
    # MemAvailable has what the kernel keeps for a box, and whatever else the host does.
    tap.note(f"{BOXES} boxes: {around / BOXES / MIB:.2f} MiB each in launcher and init, {taken / BOXES / MIB:.2f} MiB "
             f"by what the host has available; all alive after {started:.1f} s")
    tap.within(around / BOXES / MIB, 0.01, 1, "launcher and init of a box take less than 1 MiB together")
    began = time.monotonic()
    tap.equal(end_all(procs)[:3], [], "and all end as they are asked to")
    tap.note(f"ended in {time.monotonic() - began:.1f} s")
    if not tap.equal(host.differences(10), [], "nothing is left of them"):
        kill_leftovers()


def thirty_two_busy_launchers(tap):
    """Each makes box after box for some seconds; none fails, and none meets another's limits."""
    host = Snapshot()
    loop = 'i=0; while [ "$(($(date +%s) - $1))" -lt 4 ]; do "$2" run -q -- true || exit 9; i=$((i + 1)); done; echo $i'
    began = int(time.time())
    procs = [subprocess.Popen(["sh", "-c", loop, "sh", str(began), NSBOX], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=environ(), cwd=SCRATCH) for _ in range(32)]
    done = [proc.communicate(timeout=120) + (proc.returncode,) for proc in procs]
    tap.equal([d for d in done if d[2] or d[1]][:3], [], "32 launchers at once make box after box")
    counts = [int(out or 0) for out, _, _ in done]
    tap.ok(min(counts) >= 1, "each of them gets its turn", counts)
    tap.note(f"{sum(counts)} boxes, {min(counts)} to {max(counts)} a launcher")
    tap.equal(host.differences(5), [], "nothing is left of them")


BAD = {
    "fork bombs": ["--pids", "64", *WITH_ATTACK, "--", IN_BOX, "fork-bomb", "0"],
    "memory hogs": ["-m", "64M", *WITH_ATTACK, "--", IN_BOX, "eat", str(4 << 30)],
    "floods of output": ["--", "yes"],
}
VERDICTS = {"fork bombs": "pids_limit", "memory hogs": "out_of_memory"}
GOOD = (
    "import os\n"
    "block = bytearray(32 << 20)\n"
    "pids = []\n"
    "for i in range(20):\n"
    "    pid = os.fork()\n"
    "    if not pid:\n"
    "        os._exit(7)\n"
    "    pids.append(pid)\n"
    "print(sum(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids), len(block))\n")


def a_good_box_among_bad_neighbours(tap):
    """Its own limits hold it, those of its neighbours do not: not even for an ordinary user,
    whose boxes have one uid on the host."""
    alone = box(["--pids", "64", "-m", "128M"], "/usr/bin/python3", "-c", GOOD)
    want = f"140 {32 * MIB}\n"
    tap.equal(alone["stdout"], want, "control: alone it works", alone)
    for what, flags in BAD.items():
        bad = [start("--json", "--timeout", "20", *flags) for _ in range(4)]
        time.sleep(0.3)
        ran = [box(["--pids", "64", "-m", "128M"], "/usr/bin/python3", "-c", GOOD) for _ in range(3)]
        tap.equal([(r["verdict"], r["stdout"]) for r in ran], [("exited", want)] * 3,
                  f"next to four {what} a box gets its processes and its memory")
        for proc in bad:
            if what not in VERDICTS:
                proc.kill()
                proc.communicate()
                continue
            tap.equal(json.loads(proc.communicate(timeout=60)[0])["verdict"], VERDICTS[what],
                      f"one of the {what} ends by its own limit")
        if not tap.equal(leftovers(3), [], f"{what}: nothing is left"):
            kill_leftovers()


if __name__ == "__main__":
    become_reaper()
    run_tests([a_thousand_boxes_at_once, thirty_two_busy_launchers, a_good_box_among_bad_neighbours])
