# as: walls rootwalls user nouserns
"""A box without namespaces at work, and what it refuses; and that nobody gets one unasked."""

import json
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, SCRATCH, WALLED, WALLS, nsbox, parse_record  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

FLOOR = WALLS[:2]


def record_of(verb, *args, **how):
    """nsbox VERB --json with the floor lowered; its record is parsed."""
    ran = nsbox(verb, "--json", *WALLS, *args, **how)
    ran.record = parse_record(ran)
    return ran


def nobody_gets_one_unasked(tap):
    ran = nsbox("run", "--json", "--", "true")
    if AS == "user":
        tap.equal(json.loads(ran.out)["isolation"], "namespaces", "the usual box has namespaces", ran)
        ran = record_of("run", "--", "true")
        tap.equal((ran["isolation"], ran.err), ("namespaces", b""), "where they can be had they are used, whatever is accepted", ran)
        return
    error = json.loads(ran.out)
    tap.equal((ran.rc, error["code"]), (125, "unsupported"), "without the key a box is refused", ran)
    tap.ok("--isolation-floor landlock" in error["hint"], "and the hint names it", error)


def limits_of_disk_are_refused_unless_left_out(tap):
    ran = nsbox("run", *FLOOR, "--", "true")
    tap.ok(ran.rc == 125 and b"limits.disk" in ran.err, "limits.disk cannot be had", ran)
    ran = nsbox("run", *FLOOR, "--set", "enforce.optional=limits.disk", "--set", "enforce.optional=limits.tmp", "--", "echo", "on")
    tap.equal((ran.rc, ran.out), (0, b"on\n"), "left out by name, the box runs", ran)
    tap.ok(b"Landlock" in ran.err, "and says on stderr what it is", ran)


def the_record_says_what_holds(tap):
    ran = record_of("run", "--", "true")
    tap.equal(ran["isolation"], "landlock", "isolation", ran)
    tap.ok(any("Landlock and seccomp alone" in note for note in ran["notes"]), "a note", ran["notes"])
    want = {"filesystem": "kernel", "network": "kernel", "syscalls": "kernel", "landlock": "kernel", "disk": "none"}
    tap.equal({k: ran["enforced"][k] for k in want}, want, "strengths", ran)
    tap.equal((ran["limits"]["disk_bytes"], ran["limits"]["tmp_bytes"]), (None, None), "no number of disk is claimed", ran)
    ran = nsbox("run", *WALLS, "--explain", "--", "true")
    tap.ok(b"there are no namespaces here" in ran.out, "--explain says so", ran)
    tap.equal([d for d in os.listdir("/tmp") if d.startswith("nsbox-box.")], [], "and makes no folder")


def programs_work(tap):
    scripts = {
        "python": ("import json, os, sqlite3, subprocess, tempfile, threading, asyncio\n"
                   "open('f', 'w').write('x'); os.makedirs('a/b'); os.rename('f', 'a/b/f'); os.symlink('a', 'l')\n"
                   "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
                   "asyncio.run(asyncio.sleep(0)); tempfile.mkdtemp()\n"
                   "print(subprocess.run(['cat', 'a/b/f'], capture_output=True).stdout, os.getcwd() == os.environ['HOME'])\n",
                   "thread\nb'x' True\n"),
        "bash": ("cat <(echo sub); x=$(echo a | tr a b); echo $x; touch t; [[ -e t ]] && mv t u && ls", "sub\nb\nu\n"),
    }
    if shutil.which("node"):
        scripts["javascript"] = ("const fs = require('fs'); fs.writeFileSync('f', 'x'); "
                                 "console.log(fs.readFileSync('f', 'utf8'), require('os').cpus().length > 0)", "x true\n")
    for language, (code, out) in scripts.items():
        ran = record_of("code", "--language", language, "-c", code)
        tap.equal((ran["stdout"], ran["exit_code"]), (out, 0), language, ran)
    ran = record_of("check", "-c", "import os\nx = (")
    tap.equal((ran["verdict"], ran["success"]), ("skipped", False), "the tier static checks a source", ran)


def the_callers_umask_does_not_matter(tap):
    ran = record_of("code", "-c", "print('on')", preexec_fn=lambda: os.umask(0o077))
    tap.equal((ran["stdout"], ran["exit_code"]), ("on\n", 0), "with umask 077 nsbox's own programs are read", ran)


def files_come_out(tap):
    place = os.path.join(SCRATCH, "artifacts")
    shutil.rmtree(place, ignore_errors=True)
    ran = record_of("run", "--artifacts", place, "--", "sh", "-c", "mkdir d; echo x > d/f; ln -s /etc/passwd l")
    tap.equal([a["path"] for a in ran["artifacts"]], ["d/f"], "regular files of the work folder", ran)
    with open(f"{place}/d/f", encoding="ascii") as f:
        tap.equal(f.read(), "x\n", "with their bytes")
    with open(f"{SCRATCH}/shown", "w", encoding="ascii") as f:
        f.write("shown\n")
    ran = record_of("run", "--ro", f"{SCRATCH}/shown", "--", "cat", f"{SCRATCH}/shown")
    tap.equal(ran["stdout"], "shown\n", "a file is shown where it is", ran)
    if AS == "rootwalls":
        os.chmod(place, 0o700)
        ran = nsbox("run", *WALLS, "--ro", f"{place}/d/f", "--", "true")
        tap.ok(ran.rc == 125 and b"may not reach this path" in ran.err, "one that its user cannot reach is an error", ran)


def what_needs_namespaces_is_refused(tap):
    place = os.path.join(SCRATCH, "place")
    os.makedirs(place, exist_ok=True)
    for what, flags in (("fs.write", ["--rw", place]), ("at /elsewhere", ["--ro", f"{place}:/elsewhere"]), ("fs.hidden", ["--set", "fs.hidden=/usr/share"]),
                        ("fs.tmpfs", ["--tmpfs", "/data"])):
        ran = nsbox("run", *WALLS, *flags, "--", "true")
        tap.ok(ran.rc == 125 and what.encode() in ran.err and (b"namespace" in ran.err or b"idmapped" in ran.err), f"refused: {what}", ran)
        tap.equal(ran.err.count(b"\n"), 1, f"in one line: {what}", ran)
    ran = nsbox("code", *WALLS, "--with", "nsbox-none==1", "-c", "1", env={"XDG_CACHE_HOME": SCRATCH})
    tap.ok(ran.rc == 125 and b"packages are installed in a box with namespaces" in ran.err, "refused: an install of packages", ran)
    ran = nsbox("run", *WALLS, "--net", "veth", "--", "true")
    tap.equal(ran.rc, 125, "refused: --net veth", ran)
    if AS == "walls":
        ran = record_of("run", "--rw", place, "--set", "fs.protect=", "--set", "fs.protect_home=", "--", "sh", "-c", f"echo mine > {place}/new")
        tap.equal(ran["exit_code"], 0, "a folder without protected names may be written", ran)
        tap.ok(os.path.exists(f"{place}/new"), "and is")


def limits_hold(tap):
    ran = record_of("run", "--timeout", "300ms", "--", "sleep", "60")
    tap.equal(ran["verdict"], "timed_out", "time", ran)
    ran = record_of("run", "--memory", "64M", "--", "python3", "-c", "x = [bytearray(1 << 20) for _ in range(400)]; import time; time.sleep(20)")
    tap.among((ran["verdict"], ran["exit_code"]), (("out_of_memory", None), ("exited", 1)), "memory", ran)
    ran = record_of("run", "--set", "limits.files=20", "--", "python3", "-c", "[open('/dev/null') for _ in range(30)]")
    tap.ok("Too many open files" in ran["stderr"], "files", ran)
    begun = time.monotonic()
    ran = record_of("run", "--cpu-time", "1", "--", "sh", "-c", "while :; do :; done")
    tap.ok(ran["verdict"] != "exited" and time.monotonic() - begun < 30, "CPU time", ran)


def nothing_is_left(tap):
    tap.equal(leftovers(), [], "no process is left")
    tap.equal([d for d in os.listdir("/tmp") if d.startswith("nsbox-box.")], [], "and no folder")


if __name__ == "__main__":
    become_reaper()
    sys.exit(run_tests([nobody_gets_one_unasked, *([
        limits_of_disk_are_refused_unless_left_out, the_record_says_what_holds, programs_work, the_callers_umask_does_not_matter,
        files_come_out,
        what_needs_namespaces_is_refused, limits_hold, nothing_is_left] if WALLED else [])]))
