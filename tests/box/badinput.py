# as: root user userns container noclone3
"""Bad input: one line with what, where and how to fix; 125; nothing run, nothing left."""

import json
import os
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, NSBOX, SCRATCH, environ, has_writable_binds, nsbox, own_mounts, run  # noqa: E402
from host import Snapshot, become_reaper  # noqa: E402
from tap import needs, run_tests  # noqa: E402

PLACE = os.path.join(SCRATCH, "bad")
MARK = os.path.join(PLACE, "w", "ran")

# arguments, and a word that the message must hold
CASES = (
    (("--no-such-flag",), "--no-such-flag"),
    (("--memroy", "1G"), "--memory"),
    (("-Z",), "-Z"),
    (("--set", "no.such.key=1"), "no.such.key"),
    (("--set", "limits.memory"), "limits.memory"),
    (("--set", "=1"), "="),
    (("-m", "lots"), "lots"),
    (("-m", "-1"), "-1"),
    (("-m", "0"), "0"),
    (("-m", "1Q"), "1Q"),
    (("-m", "99999999999999999999"), "99999999999999999999"),
    (("-m", "17179869184G"), "17179869184G"),
    (("-m", ""), "memory"),
    (("--pids", "0"), "0"),
    (("--pids", "1.5"), "1.5"),
    (("--pids", "-5"), "-5"),
    (("--pids", "99999999999"), "99999999999"),
    (("--cpus", "-1"), "-1"),
    (("--cpus", "x"), "x"),
    (("--timeout", "0"), "0"),
    (("--timeout", "-1"), "-1"),
    (("--timeout", "1y"), "1y"),
    (("--timeout", "1e9"), "1e9"),
    (("--timeout", "nan"), "nan"),
    (("--timeout", "0x10"), "0x10"),
    (("--output-limit", "-1"), "-1"),
    (("--net", "maybe"), "maybe"),
    (("--set", "net.path=veth"), "net.path"),
    (("--allow-out", "example.org"), "--net filtered"),
    (("--net", "filtered", "--allow-out", "https://example.org/"), "example.org"),
    (("--net", "filtered", "--deny-out", "10.0.0.1/8"), "10.0.0.0/8"),
    (("--net", "filtered", "--set", "net.proxy=http://user:hidden"), "net.proxy"),
    (("--publish", "80"), "net.publish"),
    (("-p", "/no/such/policy.json"), "/no/such/policy.json"),
    (("-p", PLACE), PLACE),
    (("--ro", "/no/such/source"), "/no/such/source"),
    (("--rw", "/no/such/source:/x"), "/no/such/source"),
    (("--ro", "relative/none"), "relative/none"),
    (("--ro", f"{PLACE}:relative"), "relative"),
    (("--ro", f"{PLACE}:/a/../../b"), ".."),
    (("--ro", f"{PLACE}:/proc"), "/proc"),
    (("--ro", f"{PLACE}:/proc/self"), "/proc"),
    (("--ro", f"{PLACE}:/dev"), "/dev"),
    (("--rw", f"{PLACE}:/"), "/"),
    (("--ro", f"{PLACE}/sock:/s"), "socket"),
    (("--ro", f"{PLACE}/fifo:/s"), "fifo"),
    (("--ro", "/dev/mem:/s"), "/dev"),
    (("--tmpfs", "relative"), "relative"),
    (("--tmpfs", "/x:lots"), "lots"),
    (("--tmpfs", "/proc"), "/proc"),
    (("-w", "relative"), "relative"),
    (("-w", "/no/such/folder"), "/no/such/folder"),
    (("-e", "=x"), "NAME"),          # not what was given: a value may be a secret
    (("-e", "1BAD=x"), "NAME"),
    (("-e", "A B=x"), "NAME"),
    (("--env-file", "/no/such/env"), "/no/such/env"),
    (("--artifacts", "/proc/none"), "/proc/none"),
    (("--artifacts", f"{PLACE}/file"), f"{PLACE}/file"),
    (("--require", "magic"), "magic"),
    (("--status-fd", "99"), "99"),
    (("--status-fd", "x"), "x"),
    (("--interpreter", "/no/such/python"), "interpreter"),
    (("--set", "syscalls.allow=no_such_call"), "no_such_call"),
    (("--set", "syscalls.level=none"), "none"),
    (("--set", "devices.allow=sda"), "sda"),
    (("--timeout",), "--timeout"),
)


def prepare():
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE + "/w")
    with open(f"{PLACE}/file", "w", encoding="utf-8") as f:
        f.write("file\n")
    os.mkfifo(f"{PLACE}/fifo")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(f"{PLACE}/sock")
    sock.close()


def refused(tap, argv, what, word, host, **how):
    ran = nsbox(*argv, **how)
    tap.equal((ran.rc, ran.out), (125, b""), f"{what}: 125 and no output", ran)
    tap.ok(ran.err.startswith(b"nsbox: ") and ran.err.endswith(b"\n") and ran.err.count(b"\n") == 1,
           f"{what}: one line that begins with nsbox", ran)
    if word:
        tap.ok(word.encode() in ran.err, f"{what}: the line names {word}", ran)
    tap.ok(not os.path.exists(MARK), f"{what}: nothing was run", ran)
    if os.path.exists(MARK):
        os.unlink(MARK)
    tap.equal(host.differences(0.5), [], f"{what}: nothing is left")


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def the_control_runs(tap):
    prepare()
    ran = nsbox("run", "--rw", f"{PLACE}/w:/w", "--", "touch", "/w/ran")
    tap.equal(ran.rc, 0, "good input runs", ran)
    tap.ok(os.path.exists(MARK), "and leaves the mark that bad input must not leave")
    if os.path.exists(MARK):
        os.unlink(MARK)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def each_bad_input_is_refused(tap):
    prepare()
    host = Snapshot()
    for args, word in CASES:
        what = " ".join(repr(a) if not a or " " in a else a for a in args).replace(PLACE, "$P")
        tail = () if args == ("--timeout",) else ("--", "touch", "/w/ran")
        refused(tap, ("run", "--rw", f"{PLACE}/w:/w", *args, *tail), what, word, host)


def no_command_and_no_verb(tap):
    host = Snapshot()
    refused(tap, ("run",), "no command", "", host)
    refused(tap, ("run", "--"), "no command after --", "", host)
    refused(tap, ("rnu", "--", "true"), "a misspelt verb", "run", host)
    refused(tap, (), "no verb", "", host)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def too_large(tap):
    host = Snapshot()
    prepare()
    for what, count, size in (("an environment of megabytes", 40, 100000),
                              ("a variable of 200 kB", 1, 200000)):
        with open(f"{PLACE}/env", "w", encoding="utf-8") as f:
            f.writelines(f"V{i}={'x' * size}\n" for i in range(count))
        refused(tap, ("run", "--rw", f"{PLACE}/w:/w", "--env-file", f"{PLACE}/env", "--", "touch",
                      "/w/ran"), what, "", host)
    refused(tap, ("run", "--rw", f"{PLACE}/w:/w", "--ro", "/" + "x" * 5000, "--", "touch", "/w/ran"),
            "a path of 5000 bytes", "", host)
    refused(tap, ("run", "--rw", f"{PLACE}/w:/w", "--ro", f"{PLACE}:/" + "x" * 300, "--", "touch", "/w/ran"),
            "a name of 300 bytes", "", host)
    binds = [arg for i in range(2000) for arg in ("--ro", f"{PLACE}/file:/b/{i}")]
    ran = nsbox("run", *binds, "--", "sh", "-c", "ls /b | wc -l")
    tap.ok(ran.rc == 125 and ran.err.count(b"\n") == 1 or ran.text() == "2000",
           "2000 binds are all there, or refused in one line", ran)


def an_unreadable_policy(tap):
    if AS in ("root", "noclone3", "container"):
        tap.note("root reads everything; see the run as a user")
        return
    prepare()
    path = f"{PLACE}/policy.json"
    with open(path, "w", encoding="utf-8") as f:
        f.write("{}")
    os.chmod(path, 0)
    if AS == "userns":
        tap.note("the root of a user namespace reads its own files; see the run as a user")
        return
    refused(tap, ("run", "-p", path, "--", "true"), "an unreadable policy", path, Snapshot())


def full_disk_for_artifacts(tap):
    """Artifacts that do not fit: the run is told, not hidden, and nothing is half there."""
    full = f"{PLACE}/full"
    os.makedirs(full, exist_ok=True)
    unshare = own_mounts()
    script = (f"mount -t tmpfs -o size=64k,mode=777 t {full} && {NSBOX} run --artifacts {full}/out -- "
              f"sh -c 'head -c 1000000 /dev/zero > big'; echo rc=$?; find {full} -type f -size +0 | wc -l")
    ran = run([*unshare, "sh", "-c", script])
    lines = ran.text().split("\n")
    tap.equal(lines[-2:], ["rc=125", "0"], "a full disk is an error and leaves no part of a file", ran)
    tap.ok(b"nsbox: " in ran.err and b"big" in ran.err, "and the message names the file", ran)


def with_json_an_error_is_one_object(tap):
    host = Snapshot()
    for args in (("--memroy", "1G"), ("--ro", "/no/such/source"), ("-p", "/no/such.json")):
        ran = nsbox("run", "--json", *args, "--", "true")
        what = f"--json {' '.join(args)}"
        tap.equal(ran.rc, 125, f"{what}: 125", ran)
        error = json.loads(ran.out)
        tap.equal((error["schema"], error["exit_status"]), ("nsbox.error/1", 125), f"{what}: an error object", ran)
        tap.ok(error["message"] and args[1].split("/")[-1].split(".")[0] in str(error) or args[0] in str(error),
               f"{what}: it says what", ran)
        tap.equal(ran.out.count(b"\n"), 1, f"{what}: one line on stdout", ran)
    tap.equal(host.differences(0.5), [], "nothing is left")


def an_early_error_is_always_told(tap):
    """The word of a child that gives up must never be lost, however the processes race."""
    told = {nsbox("run", "-w", "/no/such/folder", "--", "true").err for _ in range(300)}
    tap.equal(len(told), 1, "300 times the same mistake is 300 times the same line", told)


def stdin_at_an_error_is_untouched(tap):
    proc = subprocess.Popen(["/bin/sh", "-c", f"{NSBOX} run --no-such-flag -i -- cat 2>/dev/null; cat"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ(), cwd=SCRATCH)
    out, _ = proc.communicate(b"still here\n", timeout=20)
    tap.equal(out, b"still here\n", "an error takes nothing from stdin")


if __name__ == "__main__":
    become_reaper()
    run_tests([the_control_runs, each_bad_input_is_refused, no_command_and_no_verb, too_large,
               an_unreadable_policy, full_disk_for_artifacts, with_json_an_error_is_one_object,
               an_early_error_is_always_told, stdin_at_an_error_is_untouched])
