# as: root user userns container
"""Exhaustion: processes, memory, disk, output, time (E25-E28 A1 A4 A9-A12)."""

import json
import os
import re
import resource
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, ATTACK, IN_BOX, NSBOX, SCRATCH, attack, box, boxed_attack, environ, nsbox, run  # noqa: E402
from host import become_reaper, descendants, kill_leftovers, leftovers, peak_memory  # noqa: E402
from tap import EMULATED, run_tests  # noqa: E402

MIB = 1 << 20
SLACK = 16 * MIB         # what is taken between two looks at a box
WITH_ATTACK = ("--ro", f"{ATTACK}:{IN_BOX}")


# Keeps argv[1] threads beside its own, or as many as it gets, for longer than a box may be
# over its limit.
THREADS = """
import sys, threading, time
done = threading.Event()
try:
    for _ in range(int(sys.argv[1])):
        threading.Thread(target=done.wait, daemon=True).start()
except RuntimeError:
    pass
time.sleep(2.5)
print(threading.active_count())
done.set()
"""


def clean(tap, what):
    if not tap.equal(leftovers(1), [], f"{what}: nothing survives"):
        kill_leftovers()


def a_fork_bomb_ends(tap):
    ran = box([*WITH_ATTACK, "--pids", "64", "--timeout", "10"], IN_BOX, "fork-bomb", "0")
    tap.among((ran["verdict"], ran.rc), (("pids_limit", 123), ("timed_out", 124)),
              "A1 a fork bomb ends by a limit", ran)
    tap.equal(ran["verdict"], "pids_limit", "E25 the verdict is pids_limit", ran)
    tap.takes(ran.wall, 0, 5, "E25 within seconds", ran.wall)
    tap.equal(run(["true"]).rc, 0, "E25 the host can still start programs")
    clean(tap, "E25 a fork bomb")


def the_number_of_processes_is_bounded(tap):
    tap.equal(attack("count-forks", "200"), "200", "E25 without a box: 200 children")
    ran = box([*WITH_ATTACK, "--pids", "32"], IN_BOX, "count-forks", "200")
    if ran["verdict"] == "exited":
        parts = ran["stdout"].split()
        tap.equal(parts[:2], ["EAGAIN", "after"], "E25 --pids 32: fork says EAGAIN", ran)
        spare = ran["enforced"]["pids"] == "userspace"  # one more, for a moment
        tap.within(int(parts[-1]) if len(parts) == 3 else -1, 1, 31 + spare, "E25 before the 32nd", ran)
    else:
        tap.equal((ran["verdict"], ran.rc), ("pids_limit", 123),
                  "E25 --pids 32: or the box is killed for it", ran)
    tap.among(ran["enforced"]["pids"], ("kernel", "userspace"), "E25 the record says how", ran)
    ran = box(["--pids", "8", "--timeout", "10"], "/usr/bin/python3", "-c", THREADS, "7")
    tap.equal((ran["verdict"], ran["stdout"]), ("exited", "8\n"), "E25 all that is allowed may be kept", ran)
    ran = box(["--pids", "8", "--timeout", "10"], "/usr/bin/python3", "-c", THREADS, "20")
    kept = ("exited", "8\n") if ran["enforced"]["pids"] == "kernel" else ("pids_limit", "")
    tap.equal((ran["verdict"], ran["stdout"]), kept, "E25 more is refused, or the end", ran)
    ran = box([*WITH_ATTACK, "--pids", "100"], IN_BOX, "count-forks", "40")
    tap.equal(ran["stdout"].strip(), "40", "E25 below the limit all is well", ran)


def a_memory_hog_ends(tap):
    tap.equal(attack("eat", str(200 * MIB)), "ok", "E26 without a box: 200 MiB can be had")
    for act in (("eat", str(4096 * MIB)), ("eat-many", "16", str(64 * MIB)),
                ("eat-memfd", str(400 * MIB)), ("eat-segments", str(400 * MIB))):
        ran = box([*WITH_ATTACK, "-m", "128M", "--timeout", "20"], IN_BOX, *act)
        # told ENOMEM in time is as good as killed, but only if the limit held meanwhile
        peak = ran["usage"]["memory_peak_bytes"]
        told = ran["stdout"] == "errno=ENOMEM\n" and peak is not None and peak <= 128 * MIB + SLACK
        tap.ok((ran["verdict"], ran.rc) == ("out_of_memory", 123) or told,
               f"E26 {act[0]} beyond 128 MiB: out_of_memory", ran)
        tap.takes(ran.wall, 0, 10, f"E26 {act[0]}: soon", ran.wall)
        clean(tap, f"E26 {act[0]}")
    tap.among(ran["enforced"]["memory"], ("kernel", "userspace"), "E26 the record says how", ran)
    tap.equal(attack("eat-segments", str(32 * MIB)), "ok", "E26 without a box: 32 MiB in segments")
    for act in ("eat", "eat-memfd", "eat-segments"):
        got, ran = boxed_attack(["-m", "128M"], act, str(64 * MIB))
        tap.equal(got, "ok", f"E26 {act} below the limit: all is well", ran)


def memory_file_systems_are_bounded(tap):
    for where, limit in (("/dev/shm/x", 64), ("/tmp/x", 64)):
        got, ran = boxed_attack(["-m", "2G"], "fill", where, str(1024 * MIB))
        tap.equal(got, "errno=ENOSPC", f"E26 {where[:-2]} is full at its size: ENOSPC", ran)
        got, ran = boxed_attack(["-m", "2G"], "fill", where, str(limit // 2 * MIB))
        tap.equal(got, "ok", f"E26 {where[:-2]} takes half of it", ran)
    got, ran = boxed_attack(["-m", "2G"], "fill", "/workspace/x", str(1024 * MIB))
    tap.ok(got == "errno=ENOSPC" or ran["verdict"] == "disk_limit",
           "E27 the work folder is full at its size", f"{got}\n{ran}")
    got, ran = boxed_attack(["-m", "2G", "--disk", "16M"], "fill", "/workspace/x", str(64 * MIB))
    tap.ok(got == "errno=ENOSPC" or ran["verdict"] == "disk_limit",
           "E27 --disk 16M holds for the work folder", f"{got}\n{ran}")
    got, ran = boxed_attack([], "many-files", "/tmp", "2000000")
    tap.equal(got, "errno=ENOSPC", "E27 the number of files is bounded too", ran)
    for where in ("/x", "/etc/x", "/usr/x", "/dev/x", "/opt/x", "/home/x"):
        got, ran = boxed_attack([], "create", where)
        tap.among(got, ("errno=EROFS", "errno=EACCES", "errno=ENOENT"),
                  f"E27 {where} cannot be made: the rest is read-only", ran)


def fill_then(path, size, then):
    return ("sh", "-c", f"head -c {size} /dev/zero > {path} 2>/dev/null; {then}")


def a_full_tree_is_in_the_record(tap):
    """Seen by looking: at the end, and four times a second while it runs."""
    flags = ["-m", "2G", "--disk", "16M", "--tmpfs", "/scratch:8M"]
    rows = (("/workspace", "16M", "limits.disk=16M", "--disk 32M"),
            ("/tmp", "64M", "limits.tmp=64M", "--set limits.tmp=128M"),
            ("/dev/shm", "64M", "limits.shm=64M", "--set limits.shm=128M"),
            ("/scratch", "8M", "fs.tmpfs=/scratch:8M", "--tmpfs /scratch:16M"))
    for where, size, rule, allow in rows:
        want = [{"layer": "disk", "what": f"{where} was full: {size}", "rule": rule, "allow": allow, "count": None}]
        ran = box(flags, *fill_then(f"{where}/x", "200M", "exit 3"))
        tap.equal((ran["verdict"], ran["exit_code"], ran["denials"]), ("exited", 3, want),
                  f"E27 {where} full at the end is a denial", ran)
        ran = box(flags, *fill_then(f"{where}/x", "200M", f"sleep 1; rm {where}/x"))
        tap.equal((ran["exit_code"], ran["denials"]), (0, want),
                  f"E27 {where} that was full for a second as well", ran)
    ran = box(flags, *fill_then("/workspace/x", "15M", "exit 0"))
    tap.equal(ran["denials"], [], "E27 nearly full is no denial", ran)
    ran = box([*flags, "--set", "limits.inodes=50"], "sh", "-c",
              "i=0; while true > /tmp/$i; do i=$((i + 1)); done 2>/dev/null; exit 0")
    tap.equal(ran["denials"], [{"layer": "disk", "what": "/tmp was full: 50 files and folders",
                                "rule": "limits.inodes=50", "allow": "--set limits.inodes=100", "count": None}],
              "E27 so is one without room for another file", ran)
    ran = box([*flags, "--set", "fs.hidden=/tmp"], *fill_then("/workspace/x", "200M", "exit 0"))
    tap.equal([d["rule"] for d in ran["denials"]], ["limits.disk=16M"],
              "E27 a hidden tree is not looked at, the others are", ran)


def a_full_tree_can_be_a_limit(tap):
    kill = ["--disk", "16M", "--set", "limits.disk_action=kill", "--timeout", "20"]
    ran = box(kill, *fill_then("/workspace/x", "200M", "sleep 15"))
    tap.equal((ran["verdict"], ran.rc, ran["denials"]), ("disk_limit", 123, []),
              "E27 with disk_action=kill the verdict is disk_limit", ran)
    tap.equal(ran["reason"], "disk: filled the 16M of /workspace", "E27 the reason names the tree", ran)
    tap.within(ran.wall, 0, 5, "E27 soon", ran.wall)
    ran = box(kill, *fill_then("/workspace/x", "15M", "exit 4"))
    tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 4), "E27 not before it is full", ran)


def a_file_too_large_is_told(tap):
    ran = box(["--set", "limits.file_size=1M"], "sh", "-c", "exec head -c 2M /dev/zero > x")
    tap.equal((ran["verdict"], ran["signal"], ran.rc), ("signaled", 25, 153),
              "E27 beyond limits.file_size comes SIGXFSZ, which anybody could have sent", ran)
    tap.equal([(d["layer"], d["rule"], d["allow"]) for d in ran["denials"]],
              [("disk", "limits.file_size=1M", "--set limits.file_size=2M")],
              "E27 the denial names the limit", ran)
    ran = box(["--set", "limits.file_size=1M"], "sh", "-c", "exec head -c 1M /dev/zero > x")
    tap.equal((ran["exit_code"], ran["denials"]), (0, []), "E27 a file of that size is fine", ran)
    ran = box([], "sh", "-c", "kill -XFSZ $$")
    tap.equal((ran["verdict"], ran["denials"]), ("signaled", []), "E27 without the limit it means nothing",
              ran)


def refused_forks_are_in_the_record(tap):
    """Only the kernel counts them, and only where it holds the limit."""
    ran = box([*WITH_ATTACK, "--pids", "32"], "sh", "-c", f"{IN_BOX} count-forks 200 >/dev/null; exit 3")
    told = [d for d in ran["denials"] if d["layer"] == "pids"]
    if ran["verdict"] != "exited" or ran["enforced"]["pids"] != "kernel":
        tap.equal(told, [], "E25 forks that nobody counted are not claimed", ran)
    else:
        tap.equal([(d["rule"], d["allow"]) for d in told], [("limits.pids=32", "--pids 64")],
                  "E25 refused forks are a denial", ran)
        tap.ok(re.fullmatch(r"\d+ new process(es)? or threads? (was|were) refused at the limit of 32",
                            told[0]["what"] if told else ""), "E25 with their number", ran)
    ran = box([], "sh", "-c", "true & wait")
    tap.equal(ran["denials"], [], "E25 a box that was refused nothing has no denials", ran)


def one_process_killed_for_memory(tap):
    """limits.oom=process: the kernel kills one, and the program may live on."""
    flags = [*WITH_ATTACK, "-m", "64M", "--set", "limits.oom=process", "--timeout", "20"]
    script = f"{IN_BOX} eat {512 * MIB} >/dev/null; echo lived on; exit 5"
    refused = nsbox("run", "--json", *flags, "--", "sh", "-c", script)
    if refused.rc == 125:
        tap.ok(b"limits.oom" in refused.out and b"unsupported" in refused.out,
               "E26 limits.oom=process is refused where the kernel does not hold memory", refused)
        return
    ran = box(flags, "sh", "-c", script)
    tap.equal((ran["verdict"], ran["exit_code"], ran["stdout"]), ("exited", 5, "lived on\n"),
              "E26 limits.oom=process: the program outlives its child", ran)
    tap.equal(ran["denials"], [{"layer": "memory", "rule": "limits.memory=64M", "allow": "--memory 128M",
                                "what": "1 process was killed at the memory limit of 64M", "count": None}],
              "E26 and the record tells of the child", ran)
    ran = box(flags, IN_BOX, "eat", str(512 * MIB))
    tap.equal((ran["verdict"], ran.rc, ran["denials"]), ("out_of_memory", 123, []),
              "E26 the program itself: out_of_memory", ran)
    ran = box([*WITH_ATTACK, "-m", "64M"], "sh", "-c", script)
    tap.equal((ran["verdict"], ran.rc), ("out_of_memory", 123),
              "E26 by default all of the box is killed", ran)
    tap.within(ran["usage"]["memory_peak_bytes"], 1, 64 * MIB, "E26 and never had more", ran)


def tmpfs_has_its_size(tap):
    got, ran = boxed_attack(["--tmpfs", "/scratch:8M"], "fill", "/scratch/x", str(4 * MIB))
    tap.equal(got, "ok", "E26 --tmpfs /scratch:8M takes 4 MiB", ran)
    got, ran = boxed_attack(["--tmpfs", "/scratch:8M"], "fill", "/scratch/x", str(16 * MIB))
    tap.equal(got, "errno=ENOSPC", "E26 and not 16 MiB", ran)


def a_flood_of_output_costs_nothing(tap):
    """1 GiB written (emulated: 64 MiB), 1 MiB kept; nsbox stays small all the time."""
    much = 64 * MIB if EMULATED else 1024 * MIB
    proc = subprocess.Popen([NSBOX, "run", "--json", "--timeout", "60", "--", "head", "-c", str(much),
                             "/dev/zero"], stdout=subprocess.PIPE, env=environ(), cwd=SCRATCH)
    peaks = [0]
    while not select.select([proc.stdout], [], [], 0.02)[0]:
        peaks.append(peak_memory(proc.pid))
    peaks.append(peak_memory(proc.pid))
    out = proc.stdout.read()
    proc.wait()
    tap.ok(len(peaks) > 5, "A4 its memory was sampled all along", len(peaks))
    record = json.loads(out)
    tap.equal((record["verdict"], record["stdout_bytes"], record["stdout_truncated"]),
              ("exited", much, True), f"A4 {much // MIB} MiB of output: counted, truncated, not held up",
              out[:300])
    tap.ok(len(record["stdout"]) <= 2 * MIB, "A4 what is kept is bounded", len(record["stdout"]))
    tap.within(max(peaks), 1, 16 * MIB, "A4 nsbox itself stays below 16 MiB")


def output_can_be_a_limit(tap):
    ran = box(["--output-limit", "64K", "--set", "limits.output_action=kill", "--timeout", "10"],
              "yes")
    tap.equal((ran["verdict"], ran.rc), ("output_limit", 123),
              "E27 with output_action=kill the verdict is output_limit", ran)
    tap.takes(ran.wall, 0, 3, "E27 at once", ran.wall)
    ran = box(["--output-limit", "64K", "--timeout", "1"], "yes")
    tap.equal(ran["verdict"], "timed_out", "E27 without it yes runs until its time is up", ran["verdict"])
    tap.ok(len(ran["stdout"]) <= 64 * 1024, "E27 and 64 KiB are kept", len(ran["stdout"]))


def time_is_exact(tap):
    for script in ("sleep 60", "while :; do :; done"):
        ran = box(["--timeout", "1"], "sh", "-c", script)
        tap.ok(str(ran["reason"]).startswith("timeout: ran longer than 1s"),
               f"E28 '{script}': the reason is the wall clock", ran)
        tap.equal((ran["verdict"], ran.rc), ("timed_out", 124), f"E28 '{script}' times out", ran)
        tap.takes(ran.wall, 1.0, 1.5, f"E28 '{script}' for 1 s ends within 1.5 s", ran)
        clean(tap, f"E28 '{script}'")
    ran = box(["--timeout", "1"], "sh", "-c", "trap '' TERM; while :; do :; done")
    tap.within(ran["usage"]["user_ms"] + ran["usage"]["system_ms"], 400, 1500,
               "E28 what it used until it was killed is in the record", ran)
    ran = box(["--timeout", "300ms"], "sleep", "60")
    tap.takes(ran.wall, 0.3, 0.8, "E28 so does one of 300 ms", ran)
    ran = box(["--timeout", "1"], "/usr/bin/python3", "-c", "x = 10 ** 10 ** 9")
    tap.equal(ran["verdict"], "timed_out", "A12 one long operation of an interpreter as well", ran)
    tap.takes(ran.wall, 1.0, 1.6, "A12 on time", ran)


def cpu_time_is_a_limit_of_its_own(tap):
    ran = box([*WITH_ATTACK, "--cpu-time", "1", "--timeout", "20"], IN_BOX, "burn")
    tap.equal((ran["verdict"], ran.rc), ("timed_out", 124), "E28 burning CPU time ends", ran)
    tap.equal(ran["reason"], "cpu_time: used more than 1s of processor time",
              "E28 the reason says that it was CPU time", ran)
    tap.takes(ran.wall, 0.9, 8, "E28 after about a second of it", ran)
    script = "for i in 1 2 3 4; do " + IN_BOX + " burn & done; wait"
    ran = box([*WITH_ATTACK, "--cpu-time", "1", "--timeout", "20"], "sh", "-c", script)
    tap.equal(ran["verdict"], "timed_out", "E28 spread over four processes it still ends", ran)
    tap.ok("cpu" in str(ran["reason"]), "E28 for CPU time, of all together", ran)
    for number in ("24", "9"):
        ran = box([*WITH_ATTACK, "--cpu-time", "5"], IN_BOX, "die", number)
        tap.equal((ran["verdict"], ran["signal"]), ("signaled", int(number)),
                  f"E28 signal {number} that it sends to itself is no CPU time", ran)
    ran = box(["--cpu-time", "1"], "sleep", "2")
    tap.equal(ran["exit_code"], 0, "E28 sleeping costs none", ran)


def files_and_stack(tap):
    ran = box([], "sh", "-c", "ulimit -n")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    tap.ok(0 < int(ran["stdout"]) <= 4096 or int(ran["stdout"]) <= soft,
           "E27 the number of open files is bounded", ran)
    got, ran = boxed_attack([], "raise-limit", "7")
    tap.equal(got, "errno=EPERM", "E27 and cannot be raised", ran)


def init_of(launcher):
    """The host's pid of a box's init: the launcher's child that is PID 1 of a namespace."""
    for pid, _, _ in descendants(launcher):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                if re.search(r"^NSpid:.*\t1$", f.read(), re.M):
                    return pid
        except OSError:
            pass
    return None


def a_box_is_in_the_cgroup_made_for_it(tap):
    """Limits of a cgroup hold for who is in it: also where clone3 cannot start it there."""
    proc = subprocess.Popen([NSBOX, "run", "--", "sleep", "20"], env=environ(), cwd=SCRATCH)
    time.sleep(0.5)
    leaves = [path for path, _, _ in os.walk("/sys/fs/cgroup")
              if re.fullmatch(rf"nsbox-{proc.pid}-\d+", os.path.basename(path))]
    init = init_of(proc.pid)
    if not leaves and AS not in ("root", "noclone3"):
        tap.note("E25: this caller has no cgroup of its own; see the run as root")
    elif not leaves:
        tap.skip("E25 the box is in its cgroup", "a writable cgroup v2")
    elif tap.ok(init, "E25 the box's init is there"):
        with open(f"/proc/{init}/cgroup", encoding="utf-8") as f:
            own = [line[3:].strip() for line in f if line.startswith("0::")]
        tap.equal([os.path.basename(p) for p in own], [os.path.basename(leaves[0])],
                  "E25 the box is in its cgroup")
    proc.kill()
    proc.wait()
    clean(tap, "E25 a box in a cgroup")


def nothing_survives_this_suite(tap):
    clean(tap, "this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([a_fork_bomb_ends, the_number_of_processes_is_bounded, a_memory_hog_ends,
               memory_file_systems_are_bounded, a_full_tree_is_in_the_record, a_full_tree_can_be_a_limit,
               a_file_too_large_is_told, refused_forks_are_in_the_record, one_process_killed_for_memory,
               tmpfs_has_its_size,
               a_flood_of_output_costs_nothing, output_can_be_a_limit, time_is_exact,
               cpu_time_is_a_limit_of_its_own, files_and_stack,
               a_box_is_in_the_cgroup_made_for_it, nothing_survives_this_suite])
