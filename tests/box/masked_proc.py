# as: root user
"""Where the host masks parts of its own /proc, as an unprivileged container does: no fresh
procfs may be mounted, the box steps down the ladder of /proc, runs, and says so.

The kernel refuses a procfs in a user namespace whose own /proc is covered in places by
mounts that came from outside (mount_namespaces(7), "locked"), because the fresh one would
show what those cover.
"""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, NSBOX, REPO, SCRATCH, parse_record, run  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

FAULTY = os.environ.get("NSBOX_FAULTY") or os.path.join(REPO, "build/fault/nsbox")
CONTAIN = os.path.join(REPO, "build/tests/contain")
HOME = os.path.join(SCRATCH, "masked-home")
FRESH = ["unshare", "-Urmpf", "--mount-proc", "true"]
MADE_UP = ["cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version"]
MASKS = """set -e
for name in acpi irq scsi; do
  [ ! -d /proc/$name ] || mount -t tmpfs -o ro,size=4k masked /proc/$name
done
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
exec "$@"
"""


def masked(*command):
    """In a mount namespace with masks, then in a user namespace that cannot take them off."""
    return ["unshare", "-Urm", "sh", "-c", MASKS, "sh",
            "unshare", "-Um", "--map-user=1000", "--map-group=1000", *command]


def masked_root(*command):
    """The same as root of a namespace with a range of ids: a rootless engine's root."""
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", MASKS, "sh",
            CONTAIN, "1000000000", "65536", "--", *command]


def places():
    return [("a user", masked)] + ([("root", masked_root)] if AS == "root" else [])


def start(argv):
    os.makedirs(HOME, exist_ok=True)
    os.chmod(HOME, 0o777)
    ran = run(argv, env={"HOME": HOME})
    if "--json" in argv:
        ran.record = parse_record(ran)
    return ran


def the_place_really_refuses_a_fresh_proc(tap):
    ran = start(FRESH)
    tap.equal(ran.rc, 0, "control: without masks a fresh /proc can be mounted", ran)
    for who, place in places():
        ran = start(place(*FRESH))
        tap.ok(ran.rc != 0 and b"mount /proc failed: Operation not permitted" in ran.err,
               f"behind masks {who} is refused one with EPERM", ran)
        ran = start(place("sh", "-c", "echo x > /proc/sys/kernel/hostname"))
        tap.ok(ran.rc != 0, f"behind masks {who} cannot write /proc/sys", ran)


def the_box_steps_down_and_says_so(tap):
    for who, place in places():
        ran = start(place(NSBOX, "run", "--json", "--", "sh", "-c", "ls /proc; echo x > /proc/stat"))
        tap.equal((ran["verdict"], ran["stdout"].split()), ("exited", MADE_UP),
                  f"{who}: /proc has the made-up files and no process, of the box or of others", ran)
        tap.ok("Read-only file system" in ran["stderr"] or "Permission denied" in ran["stderr"],
               f"{who}: and cannot be written", ran)
        notes = [n for n in ran["notes"] if "/proc" in n]
        tap.ok(len(notes) == 1 and "made up" in notes[0] and "/proc/self" in notes[0],
               f"{who}: the record says which /proc the box has", ran)
    ran = start([NSBOX, "run", "--json", "--", "ls", "/proc/self/status"])
    tap.equal((ran["stdout"], ran["notes"]), ("/proc/self/status\n", []),
              "control: without masks the box has a whole /proc, and no note", ran)


def programs_run_without_a_proc(tap):
    python = ("import subprocess, multiprocessing as m, os\n"
              "print(m.Pool(2).map(abs, [-1, -2]), subprocess.check_output(['echo', 'x']), os.getpid() > 1)")
    node = ("require('child_process').execSync('echo child', {stdio: 'inherit'});"
            "new (require('worker_threads').Worker)('console.log(2)', {eval: true})"
            ".on('exit', () => console.log(require('os').cpus().length))")
    for who, place in places():
        ran = start(place(NSBOX, "run", "--", "sh", "-c", "echo a | (read x; echo $x$x); /usr/bin/id -u"))
        tap.equal((ran.rc, ran.out), (0, b"aa\n1000\n"), f"{who}: a shell runs", ran)
        ran = start(place(NSBOX, "run", "--", "bash", "-c", "x=$(echo b); echo ${x}b >/dev/null; cat <<<$x"))
        tap.equal((ran.rc, ran.out), (0, b"b\n"), f"{who}: bash runs", ran)
        ran = start(place(NSBOX, "code", "--language", "python", "-c", python))
        tap.equal((ran.rc, ran.out), (0, b"[1, 2] b'x\\n' True\n"),
                  f"{who}: Python runs, with a pool and a child", ran)
        if not shutil.which("node"):
            tap.skip(f"{who}: Node runs", "node")
            continue
        ran = start(place(NSBOX, "code", "--language", "javascript", "-c", node))
        tap.equal((ran.rc, ran.out), (0, b"child\n2\n1\n"), f"{who}: Node runs, with a worker and a child", ran)


def the_limits_hold_without_a_proc(tap):
    for who, place in places():
        ran = start(place(NSBOX, "run", "--json", "--timeout", "0.5", "--", "sleep", "20"))
        tap.equal(ran["verdict"], "timed_out", f"{who}: the timeout", ran)
        ran = start(place(NSBOX, "run", "--json", "--memory", "64M", "--",
                          "/usr/bin/python3", "-c", "x = b'x' * (1 << 28); print(len(x))"))
        tap.ok(ran["stdout"] == "" and (ran["verdict"] == "out_of_memory" or "MemoryError" in ran["stderr"]),
               f"{who}: the memory", ran)


def the_rung_between_has_processes_only(tap):
    """No kernel up to 6.18 lets subset=pid through where it refuses a whole /proc, so the
    refusal is made by the fault build; the mount that follows is a real one."""
    if not os.path.exists(FAULTY):
        tap.skip("subset=pid", "the fault build")
        return
    for what, argv in (("sh", ["run", "--json", "--", "sh", "-c", "ls -d /proc/[a-z]*; ls /proc/self/fd | wc -w; "
                                                                  "echo x > /dev/stdout; cat /proc/1/comm"]),
                       ("python", ["code", "--json", "--language", "python", "-c", "print(open('/proc/self/comm').read())"]),
                       ("node", ["code", "--json", "--language", "javascript", "-c", "console.log(process.execPath[0])"])):
        if what == "node" and not shutil.which("node"):
            tap.skip("subset=pid: node", "node")
            continue
        ran = run([FAULTY, *argv], env={"NSBOX_FAULT": "proc=full:1"})
        ran.record = parse_record(ran)
        tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 0), f"subset=pid: {what} runs", ran)
        tap.ok(len(ran["notes"]) == 1 and "subset=pid" in ran["notes"][0], f"subset=pid: {what}: the record says so", ran)
        if what == "sh":
            words = ran["stdout"].split()
            tap.equal([w for w in words if w.startswith("/proc")], ["/proc/self", "/proc/thread-self"],
                      "subset=pid: nothing of the host but processes", ran)
            # kernels differ in what they call a program that was started from a descriptor
            tap.ok(words[-2] == "x" and "nsbox-ini" in words[-1],
                   "subset=pid: /dev/stdout works, and pid 1 is the box's", ran)
    ran = run([FAULTY, "run", "--", "true"], env={"NSBOX_FAULT": "proc=full:12"})
    tap.ok(ran.rc == 125 and b"PROC /proc: Out of memory" in ran.err,
           "another error than EPERM is an error, not a reason to step down", ran)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([the_place_really_refuses_a_fresh_proc, the_box_steps_down_and_says_so,
               programs_run_without_a_proc, the_limits_hold_without_a_proc,
               the_rung_between_has_processes_only, nothing_survives_this_suite])
