"""Runs build/bin/nsbox for the suites, and the attack program bare or in a box."""

import json
import os
import subprocess
import tempfile
import time

from tap import EMULATED

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NSBOX = os.environ.get("NSBOX") or os.path.join(REPO, "build/bin/nsbox")
ATTACK = os.environ.get("NSBOX_ATTACK") or os.path.join(REPO, "build/tests/attack")
AS = os.environ.get("NSBOX_TEST_AS", "user" if os.getuid() else "root")
SCRATCH = os.environ.get("NSBOX_SCRATCH") or "/var/tmp"
WALLED = AS in ("walls", "rootwalls")   # boxes without namespaces: paths are the host's
IN_BOX = "/attack"          # where the attack program stands in a box
WALLS = ["--isolation-floor", "landlock", "--allow-degraded"]
VERDICTS = {"exited", "signaled", "timed_out", "out_of_memory", "pids_limit", "disk_limit",
            "output_limit", "denied", "skipped", "setup_failed"}
BARE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8"}


def rounds(count):
    """How often to try a race. Emulated, a tenth: one start costs as much as ten."""
    return count // 10 if EMULATED else count


class Ran:
    """What one command did: bytes, exit status, seconds, and the record if asked for."""

    def __init__(self, rc, out, err, wall, record=None):
        self.rc, self.out, self.err, self.wall, self.record = rc, out, err, wall, record

    def text(self):
        return self.out.decode("utf-8", "replace").strip()

    def __getitem__(self, key):
        return self.record[key]

    def __str__(self):
        return (f"rc={self.rc} wall={self.wall:.2f}s\nstdout: {self.out[:600]!r}\n"
                f"stderr: {self.err[:600]!r}")


def environ(extra=None):
    env = dict(BARE_ENV)
    env["HOME"] = os.environ.get("HOME", "/")
    env.update({k: v for k, v in os.environ.items() if k.startswith("NSBOX_FAULT")})
    env.update(extra or {})
    return env


def run(argv, stdin=b"", env=None, cwd=None, limit=60, **popen):
    """A command to its end; limit is ours, for a command that should have ended."""
    start = time.monotonic()
    proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environ(env), cwd=cwd or SCRATCH,
                            **popen)
    try:
        out, err = proc.communicate(stdin, timeout=limit)
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.wait()
        for stream in (proc.stdin, proc.stdout, proc.stderr):
            stream.close()      # not read to the end: an orphan may hold them open
        raise AssertionError(f"still running after {limit} s: {argv}") from None
    return Ran(proc.returncode, out, err, time.monotonic() - start)


def run_to_files(argv, env=None, limit=60, **popen):
    """The same without pipes: an orphan that keeps its streams open delays nothing."""
    start = time.monotonic()
    with tempfile.TemporaryFile(dir=SCRATCH) as out, tempfile.TemporaryFile(dir=SCRATCH) as err:
        proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                env=environ(env), cwd=SCRATCH, **popen)
        try:
            proc.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            proc.kill()
            proc.wait()
            raise AssertionError(f"still running after {limit} s: {argv}") from None
        out.seek(0)
        err.seek(0)
        return Ran(proc.returncode, out.read(), err.read(), time.monotonic() - start)


def nsbox(*args, **how):
    """nsbox with these arguments, as they are."""
    return run([NSBOX, *args], **how)


def in_place(flags, command):
    """--ro SOURCE:DEST as --ro SOURCE, and a word of the command that is DEST as SOURCE."""
    flags, moved = [*WALLS, *flags], {}
    for i, word in enumerate(flags):
        if flags[i - 1] == "--ro" and ":/" in word:
            flags[i], dest = word.rsplit(":/", 1)
            moved["/" + dest] = flags[i]
    return flags, [moved.get(word, word) for word in command]


def box(flags, *command, **how):
    """nsbox run --json FLAGS -- COMMAND; the record is parsed and must be alone."""
    if WALLED:
        flags, command = in_place(flags, command)
    ran = nsbox("run", "--json", *flags, "--", *command, **how)
    ran.record = parse_record(ran)
    return ran


def parse_record(ran):
    try:
        record = json.loads(ran.out.decode("utf-8"))
    except ValueError as e:
        raise AssertionError(f"stdout is not one JSON object ({e})\n{ran}") from None
    if not isinstance(record, dict) or record.get("schema") != "nsbox.result/1":
        raise AssertionError(f"not a nsbox.result/1 record\n{ran}")
    return record


def attack(*act, **how):
    """The act without a box: the positive control."""
    return run([ATTACK, *act], **how).text()


def attack_in_new_userns(*act, **how):
    """The act by the root of a fresh user namespace with namespaces of its own: what a
    payload could do in a box that has namespaces and nothing else."""
    return run(["unshare", "-UrmpfinuC", "--mount-proc", ATTACK, *act], **how).text()


def boxed_attack(flags, *act, **how):
    """The act in a box; its one line, or the verdict in brackets if it did not exit 0."""
    ran = box(["--ro", f"{ATTACK}:{IN_BOX}", *flags], IN_BOX, *act, **how)
    if ran["verdict"] == "exited" and ran["exit_code"] == 0:
        return ran["stdout"].strip(), ran
    return f"[{ran['verdict']} code={ran['exit_code']} signal={ran['signal']}]", ran


def has_writable_binds():
    """Root of a container may lack the idmapped mounts that --rw needs (a clear error then)."""
    if AS != "container":
        return True
    place = os.path.join(SCRATCH, "probe-rw")
    os.makedirs(place, exist_ok=True)
    ran = nsbox("run", "--rw", f"{place}:/w", "--", "true")
    refused = ran.rc == 125 and not ran.out and ran.err.count(b"\n") == 1 and b"idmap" in ran.err
    if ran.rc != 0 and not refused:
        raise AssertionError(f"--rw neither works nor is clearly refused\n{ran}")
    return not refused


def has_userns():
    return run(["unshare", "-Ur", "true"]).rc == 0


def own_mounts():
    """What to put before a command that mounts something for itself."""
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
