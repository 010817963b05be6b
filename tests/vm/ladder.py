# as: user
"""Where an ordinary user's boxes get their cgroup under systemd: a scope of the user's
own systemd, a delegated scope that nsbox was started in, or one around it.

Runs in the guest `systemd` of tests/vm: systemd is PID 1, the user lingers, and the
suite itself runs in a service of root's, which no user may leave."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, box, environ, nsbox, parse_record, run  # noqa: E402
from host import become_reaper, leftovers, parents  # noqa: E402
from tap import run_tests  # noqa: E402

RUNTIME = f"/run/user/{os.getuid()}"
MANAGER = f"/sys/fs/cgroup/user.slice/user-{os.getuid()}.slice/user@{os.getuid()}.service"
SESSION = {"XDG_RUNTIME_DIR": RUNTIME}
SCOPE = ("systemd-run", "--user", "--scope", "--quiet", "--collect", "-p", "Delegate=yes", "--")
KERNEL = {"memory": "kernel", "pids": "kernel", "cpu": "kernel"}
HOG = ("/usr/bin/python3", "-c", "b = 'x' * 10**9")
OWN_CGROUP = ("cat", "/proc/self/cgroup")


def strengths(ran):
    return {name: ran["enforced"][name] for name in KERNEL}


def in_scope(*argv):
    return run([*SCOPE, *argv], env=SESSION)


def doctor(how):
    """The step that doctor names, and all that it says."""
    ran = how(NSBOX, "doctor", "--json")
    found = json.loads(ran.out.decode())
    return found["cgroup_step"], found


def ours():
    """Scopes and leaves of boxes below the user's manager, and the programs that keep them."""
    found = [root for root, dirs, _ in os.walk(MANAGER) if "/nsbox-" in root]
    found += [f"{pid} {name}" for pid, (_, name, state) in parents().items()
              if name.startswith("nsbox-scope") and state != "Z"]
    return found


def settled(seconds=10):
    """What is left once systemd has had time to notice: [] is clean."""
    end = time.monotonic() + seconds
    while ours() and time.monotonic() < end:
        time.sleep(0.1)
    return ours()


def wait_for(what, proc):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    proc.kill()
    raise AssertionError(f"no box came up: {proc.communicate()}")


def start(argv, env=None):
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environ(env), cwd=SCRATCH)


def inhabited_leaf():
    """The leaf of a box that runs: its path below the user's manager."""
    for root, _, _ in os.walk(MANAGER):
        if re.search(r"/nsbox-\d+-\d+$", root):
            with open(root + "/cgroup.procs", encoding="ascii") as f:
                names = [parents().get(int(pid), (0, "", ""))[1] for pid in f.read().split()]
            if "sleep" in names:
                return root[len(MANAGER):]
    return None


def place_of(*argv):
    """Where the box of this command, which sleeps for long, has its leaf."""
    proc = start(argv, SESSION)
    place = wait_for(inhabited_leaf, proc)
    proc.kill()
    proc.communicate()
    return place


def started(*argv):
    """A box that runs: (process, pid of the keeper of its scope)."""
    proc = start([NSBOX, *argv])
    wait_for(inhabited_leaf, proc)
    return proc, next(pid for pid, (parent, name, _) in parents().items()
                      if parent == proc.pid and name.startswith("nsbox-scope"))


def outside_of_any_scope_everything_is_had(tap):
    ran = run(["sh", "-c", 'test -w "/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup)"'])
    tap.equal(ran.rc, 1, "the cgroup this suite runs in is not the user's (control)")
    step, found = doctor(lambda *argv: run(argv))
    tap.equal(step, "scope", "doctor names the step")
    tap.equal(found["status"], "full", "and the local tier works fully", found)
    tap.equal(settled(), [], "the scope that doctor made is gone")


def a_hog_is_held_by_the_kernel(tap):
    ran = box(["-m", "64M", "--require", "kernel"], *HOG)
    tap.equal((ran.rc, ran["verdict"]), (123, "out_of_memory"), "1 GB under 64 MiB ends as out_of_memory", ran)
    tap.equal(strengths(ran), KERNEL, "every limit was the kernel's")
    tap.within(ran["usage"]["memory_peak_bytes"], 1 << 20, 64 << 20, "the peak is within 64 MiB")
    tap.equal(settled(), [], "no scope and no keeper is left")
    ran = box(["-m", "64M"], *OWN_CGROUP)
    tap.equal(ran["stdout"], "0::/\n", "a box sees its leaf as the top, no name of the host's")
    place = place_of(NSBOX, "run", "--", "sleep", "60")
    tap.ok(re.fullmatch(r"/app\.slice/nsbox-\d+-\d+\.scope/nsbox-\d+-\d+", place),
           "the box is in a leaf of a scope of its own", place)
    tap.equal(settled(), [], "which goes with it")


def fork_bombs_and_cores_as_well(tap):
    ran = box(["--pids", "8"], "bash", "-c", "for i in $(seq 40); do sleep 5 & done; wait")
    tap.ok(ran["verdict"] in ("pids_limit", "exited") and ran["usage"]["pids_peak"] <= 9,
           "no more processes than allowed ever lived", ran)
    code = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass"
    ran = box(["--cpus", "0.2"], "/usr/bin/python3", "-c", code)
    used = ran["usage"]["user_ms"] + ran["usage"]["system_ms"]
    tap.within(used / ran["usage"]["wall_ms"], 0.02, 0.26, "a fifth of a core is a fifth of a core", ran)


def the_box_cannot_reach_who_keeps_its_scope(tap):
    ran = box([], "/usr/bin/python3", "-c",
              "import os\nprint(sorted(os.listdir('/proc/self/fd')), os.path.exists('/run/user'),"
              " os.path.exists('/run/dbus'), [p for p in os.listdir('/proc') if p.isdigit()])")
    tap.equal(ran["stdout"].strip(), "['0', '1', '2', '3'] False False ['1', '2']",
              "no descriptor, no bus, no process of it", ran)


def a_killed_launcher_leaves_nothing(tap):
    proc, _ = started("run", "--", "sleep", "60")
    proc.send_signal(signal.SIGKILL)
    proc.communicate()
    tap.equal(settled(), [], "box, keeper and scope are gone")
    tap.equal(leftovers(2), [], "and so is every process")


def limits_outlive_a_killed_keeper(tap):
    proc, keeper = started("run", "--json", "-m", "64M", "--", "sh", "-c",
                           "sleep 3; exec /usr/bin/python3 -c \"b = 'x' * 10**9\"")
    os.kill(keeper, signal.SIGKILL)
    out, err = proc.communicate(timeout=60)
    record = json.loads(out.decode())
    # With nobody left in it systemd removes the scope, perhaps before nsbox has read why.
    tap.among((proc.returncode, record["verdict"]), ((123, "out_of_memory"), (137, "signaled")),
              "the memory limit still holds", err)
    tap.within(record["usage"]["memory_peak_bytes"] or 64 << 20, 1 << 20, 64 << 20, "and the peak is within it")
    tap.equal(settled(), [], "nothing is left")


def many_at_once_have_a_scope_each(tap):
    procs = [start([NSBOX, "run", "--json", "--require", "kernel", "--", "true"]) for _ in range(6)]
    for proc in procs:
        out, err = proc.communicate(timeout=60)
        tap.equal(proc.returncode, 0, "one of six boxes that start at once runs", out + err)
    tap.equal(settled(), [], "nothing is left of them")


def in_a_delegated_scope_nsbox_moves_itself(tap):
    step, found = doctor(in_scope)
    tap.equal((step, found["status"]), ("own", "full"), "doctor names the step", found)
    ran = in_scope(NSBOX, "run", "--json", "--require", "kernel", "-m", "64M", "--", *HOG)
    ran.record = parse_record(ran)
    tap.equal((ran["verdict"], strengths(ran)), ("out_of_memory", KERNEL), "limits are the kernel's", ran)
    place = place_of(*SCOPE, NSBOX, "run", "--", "sleep", "60")
    tap.ok(re.fullmatch(r"/app\.slice/run-\w+\.scope/nsbox-\d+-\d+", place), "in a leaf of that very scope", place)
    plain = [word for word in SCOPE if word not in ("-p", "Delegate=yes")]
    step, _ = doctor(lambda *argv: run([*plain, *argv], env=SESSION))
    tap.equal(step, "scope", "a scope that is not delegated is left alone: it is systemd's")


def beside_a_shell_there_is_a_scope_of_its_own(tap):
    place = place_of(*SCOPE, "sh", "-c", f"{NSBOX} run --require kernel -- sleep 5; exit $?")
    tap.ok(re.fullmatch(r"/app\.slice/nsbox-\d+-\d+\.scope/nsbox-\d+-\d+", place),
           "a shell in the same cgroup is nobody to move: systemd gives another", place)
    tap.equal(settled(), [], "which goes with it")
    enter = ('cg=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); mkdir $cg/init; echo $$ >$cg/init/cgroup.procs; '
             'echo +memory +pids +cpu >$cg/cgroup.subtree_control; ')
    ran = in_scope("sh", "-c", enter + f"{NSBOX} doctor --json")
    tap.equal(json.loads(ran.out.decode())["cgroup_step"], "above", "a shell that moved itself has made room", ran)
    ran = in_scope("sh", "-c", enter + f"{NSBOX} run --json --require kernel -m 64M -- {' '.join(OWN_CGROUP)}; exit $?")
    ran.record = parse_record(ran)
    tap.equal((strengths(ran), ran["stdout"]), (KERNEL, "0::/\n"), "and boxes have limits beside it", ran)


def the_policy_says_how_far_to_go(tap):
    path = os.path.join(SCRATCH, "here.json")
    with open(path, "w", encoding="ascii") as f:
        f.write('{"enforce": {"cgroup": "here"}}')
    # less than a core: a whole one is no limit where there is only one
    ran = box(["-p", path, "--cpus", "0.5"], *OWN_CGROUP)
    tap.equal(set(strengths(ran).values()), {"userspace"}, "here: no scope is asked for", ran)
    ran = nsbox("run", "-p", path, "--require", "kernel", "--", "true")
    tap.ok(ran.rc == 125 and b"userspace only" in ran.err, "and required limits are refused", ran)
    ran = in_scope(NSBOX, "run", "--json", "--cpus", "0.5", "-p", path, "--", "true")
    ran.record = parse_record(ran)
    tap.equal(set(strengths(ran).values()), {"userspace"}, "nor is nsbox moved", ran)


def without_the_program_the_reason_is_named(tap):
    with tempfile.TemporaryDirectory(dir=SCRATCH) as place:
        alone = shutil.copy(NSBOX, os.path.join(place, "nsbox"))
        ran = run([alone, "doctor", "--json"])
        said = json.dumps(json.loads(ran.out.decode()))
        tap.ok("nsbox-scope is not installed" in said and "libsystemd-dev" in said, "doctor says what to install", said)
        ran = run([alone, "run", "--require", "kernel", "--", "true"])
        tap.ok(ran.rc == 125 and b"nsbox-scope is not installed" in ran.err and b"libsystemd-dev" in ran.err,
               "and so does a refusal", ran)
        ran = run([alone, "run", "--", "true"])
        tap.equal(ran.rc, 0, "without it boxes run all the same", ran)


if __name__ == "__main__":
    become_reaper()
    run_tests([outside_of_any_scope_everything_is_had, a_hog_is_held_by_the_kernel, fork_bombs_and_cores_as_well,
               the_box_cannot_reach_who_keeps_its_scope, a_killed_launcher_leaves_nothing,
               limits_outlive_a_killed_keeper, many_at_once_have_a_scope_each,
               in_a_delegated_scope_nsbox_moves_itself, beside_a_shell_there_is_a_scope_of_its_own,
               the_policy_says_how_far_to_go, without_the_program_the_reason_is_named])
