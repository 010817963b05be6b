# as: root user userns container noclone3
"""The launcher's own surroundings: PATH, environment, settings (E39 E41 E51)."""

import json
import os
import re
import shutil
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, box, environ, nsbox, own_mounts, run  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

NAMES = ("nsbox-init", "nsbox", "sh", "mount", "newuidmap", "newgidmap", "python3", "ls", "env",
         "ip", "nft", "true")


def planted():
    """A folder full of programs that leave a mark when anybody runs them."""
    place = os.path.join(SCRATCH, "planted")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    mark = os.path.join(place, "MARK")
    for name in NAMES:
        path = os.path.join(place, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\necho \"$0\" >> {mark}\nexit 0\n")
        os.chmod(path, 0o755)
    return place, mark


def programs_of_the_project_are_not_run(tap):
    """An absolute entry of PATH is the caller's word, and a python3 there may be asked where
    it lives; nothing else there is run, and a relative entry counts for nothing."""
    place, mark = planted()
    run(["/bin/sh", "-c", "nsbox-init; true"], env={"PATH": f"{place}:/usr/bin:/bin"}, cwd=place)
    tap.ok(os.path.exists(mark), "E41 without a box: a planted program is run")
    for path, asked in ((f"{place}:/usr/bin:/bin", {"python3"}), (".:/usr/bin:/bin", set()),
                        (":/usr/bin:/bin", set()), ("planted/../../planted:/usr/bin:/bin", set())):
        if os.path.exists(mark):
            os.unlink(mark)
        ran = run([NSBOX, "run", "--", "/usr/bin/id", "-u"], env={"PATH": path}, cwd=place)
        what = path.replace(place, "$P")
        tap.equal((ran.rc, ran.text()), (0, "1000"), f"E41 PATH={what} works", ran)
        marks = set()
        if os.path.exists(mark):
            with open(mark, encoding="utf-8") as f:
                marks = {os.path.basename(line) for line in f.read().split()}
        tap.ok(marks <= asked, f"E41 PATH={what} runs none of the planted programs", marks)


def an_init_next_to_the_caller_is_not_used(tap):
    place, mark = planted()
    for variable in ("NSBOX_INIT", "NSBOX_LIBEXEC", "NSBOX_LIBDIR"):
        run([NSBOX, "run", "--", "/usr/bin/true"], env={variable: place + "/nsbox-init"}, cwd=place)
    tap.ok(not os.path.exists(mark), "E41 no variable makes nsbox start another init")


def preloading_reaches_neither(tap):
    source = os.path.join(SCRATCH, "evil.c")
    library = os.path.join(SCRATCH, "evil.so")
    mark = os.path.join(SCRATCH, "evil.mark")
    with open(source, "w", encoding="utf-8") as f:
        f.write('#include <fcntl.h>\n#include <unistd.h>\n'
                '__attribute__((constructor)) static void evil(void)\n'
                f'{{ close(open("{mark}", O_CREAT | O_WRONLY, 0644)); }}\n')
    if run(["gcc", "-shared", "-fPIC", "-o", library, source]).rc:
        tap.skip("E41 LD_PRELOAD reaches neither nsbox nor the payload", "gcc")
        return
    run(["/usr/bin/true"], env={"LD_PRELOAD": library})
    tap.ok(os.path.exists(mark), "E41 without a box: LD_PRELOAD runs code in any program")
    os.unlink(mark)
    ran = run([NSBOX, "run", "--", "/usr/bin/env"], env={"LD_PRELOAD": library})
    tap.equal(ran.rc, 0, "E41 with LD_PRELOAD in the environment nsbox runs", ran)
    tap.ok(not os.path.exists(mark), "E41 and loads nothing: the command is static")
    tap.ok(b"LD_PRELOAD" not in ran.out, "E41 the payload does not see LD_PRELOAD", ran)


def a_misspelt_setting_is_an_error(tap):
    for args, near in ((("--set", "limits.memroy=1G"), "limits.memory"),
                       (("--set", "fs.raed=/etc"), "fs.read"),
                       (("--memroy", "1G"), "--memory"), (("--timeuot", "1"), "--timeout"),
                       (("--set", "net.mode=dsiabled"), "disabled"),
                       (("-p", "no-such-profile"), "profile")):
        ran = nsbox("run", *args, "--", "echo", "ran")
        tap.equal((ran.rc, ran.out), (125, b""), f"E51 {' '.join(args)} is an error, nothing runs", ran)
        tap.ok(near.encode() in ran.err, f"E51 {' '.join(args)}: the message suggests {near}", ran)
        tap.equal(ran.err.count(b"\n"), 1, f"E51 {' '.join(args)}: in one line", ran)
    ran = nsbox("run", "--set", "limits.memory=1G", "--", "echo", "ran")
    tap.equal((ran.rc, ran.text()), (0, "ran"), "E51 spelt right it runs", ran)


def what_cannot_be_enforced_is_refused(tap):
    for args in (("--set", "net.path=veth"), ("--allow-out", "example.org"),
                 ("--allow-private", "10.0.0.0/8")):
        ran = nsbox("run", *args, "--", "echo", "ran")
        tap.equal((ran.rc, ran.out), (125, b""), f"E51 {' '.join(args)} is refused for now", ran)


def a_policy_file_fails_closed(tap):
    place = os.path.join(SCRATCH, "policy")
    os.makedirs(place, exist_ok=True)
    files = {
        "misspelt": '{"limits": {"memroy": "1G"}}', "broken": '{"limits": {"memory": "1G"',
        "empty": "", "array": "[]", "twice": '{"net": {"mode": "disabled", "mode": "disabled"}}',
        "type": '{"limits": {"pids": {"a": 1}}}', "range": '{"limits": {"pids": -1}}',
        "deep": "[" * 100000, "nul": '{"limits": {"memory": "1G\\u0000"}}',
    }
    for name, text in files.items():
        path = os.path.join(place, name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        ran = nsbox("run", "-p", path, "--", "echo", "ran")
        tap.equal((ran.rc, ran.out), (125, b""), f"E51 a policy file that is {name}: nothing runs", ran)
        tap.equal(ran.err.count(b"\n"), 1, f"E51 a policy file that is {name}: one line", ran)
        tap.ok(f"{name}.json".encode() in ran.err, f"E51 {name}: the message names the file", ran)
    good = os.path.join(place, "good.json")
    with open(good, "w", encoding="utf-8") as f:
        f.write('{\n  // a comment\n  "limits": { "memory": "256M", },\n}\n')
    ran = nsbox("run", "-p", good, "--", "echo", "ran")
    tap.equal((ran.rc, ran.text()), (0, "ran"), "E51 a good one with comment and comma runs", ran)


def a_cache_of_somebody_else_is_not_trusted(tap):
    """Policies are cached under the user's cache folder: one that others can write is ignored."""
    cache = os.path.join(SCRATCH, "cache")
    shutil.rmtree(cache, ignore_errors=True)
    os.makedirs(cache)
    env = {"XDG_CACHE_HOME": cache}
    nsbox("run", "--set", "limits.pids=77", "--", "true", env=env)
    files = [os.path.join(r, f) for r, _, fs in os.walk(cache) for f in fs]
    for path in files:
        tap.equal(stat.S_IMODE(os.stat(path).st_mode) & 0o022, 0, "E51 a cache file is the owner's only")
        with open(path, "r+b") as f:
            data = bytearray(f.read())
            for i in range(len(data) // 2, len(data)):
                data[i] ^= 0x55
            f.seek(0)
            f.write(data)
    ran = box(["--set", "limits.pids=77"], "cat", "/proc/self/status", env=env)
    tap.ok("Seccomp:\t2" in ran["stdout"] and "CapEff:\t0000000000000000" in ran["stdout"],
           f"E51 with {len(files)} damaged cache files every protection is on", ran)
    tap.ok(environ(env)["XDG_CACHE_HOME"] == cache, "E51 the cache folder was the test's own")


def a_limit_that_is_not_in_force_is_not_claimed(tap):
    """E52: what the record calls kernel was written and read back; a floor that cannot be met is
    an error, and nothing runs."""
    ran = box(["-m", "64M"], "true")
    strengths = {name: ran["enforced"][name] for name in ("memory", "pids", "cpu")}
    tap.ok(set(strengths.values()) <= {"kernel", "userspace"}, "E52 every limit of the default policy is in force", ran)
    if set(strengths.values()) == {"kernel"}:
        tap.equal(nsbox("run", "--require", "kernel", "--", "echo", "ran").out, b"ran\n", "E52 the floor is met")
        return
    ran = nsbox("run", "--require", "kernel", "--", "echo", "ran")
    tap.equal((ran.rc, ran.out), (125, b""), "E52 a floor that cannot be met: 125, nothing runs", ran)
    tap.ok(b"limits.memory would be enforced in userspace only: no cgroup v2 controller here (" in ran.err,
           "E52 with the limit, and what is missing", ran)
    tap.ok(re.search(rb"\); .{20,}; or drop --require kernel\n$", ran.err), "E52 and the remedy", ran)
    tap.equal(ran.err.count(b"\n"), 1, "E52 in one line", ran)
    ran = nsbox("run", "--", "echo", "ran")
    tap.equal((ran.rc, ran.out), (0, b"ran\n"), "E52 control: without the floor it runs", ran)


def run_without_cgroups(how, *flags):
    """In a mount namespace of its own where the cgroups are not what they were."""
    return run([*own_mounts(), "sh", "-c", how + ' && exec "$0" "$@"', NSBOX, "run", *flags, "--", "echo", "ran"])


def a_limit_that_goes_away_is_missed(tap):
    """E52: the same when the cgroups are there and cannot be written, or are hidden."""
    ways = {
        "read-only": "for m in $(awk '$3 == \"cgroup2\" { print $2 }' /proc/mounts); do mount -o remount,bind,ro $m || exit 9; done",
        "hidden": "mount -t tmpfs none /sys/fs/cgroup",
    }
    for name, how in ways.items():
        ran = run_without_cgroups(how, "--json")
        if ran.rc:
            tap.skip(f"E52 cgroups that are {name}", "mounts of its own over /sys/fs/cgroup")
            continue
        strengths = json.loads(ran.out)["enforced"]
        tap.equal({strengths[k] for k in ("memory", "pids")}, {"userspace"},
                  f"E52 cgroups that are {name}: the record says userspace", ran)
        ran = run_without_cgroups(how, "--require", "kernel")
        tap.equal((ran.rc, ran.out), (125, b""), f"E52 cgroups that are {name}: with --require kernel nothing runs", ran)
        tap.ok(b"limits.memory" in ran.err, "E52 and the limit is named", ran)


def core_scheduling_is_not_claimed(tap):
    """E43: boxes and others share the threads of a core; doctor says whether that could be changed."""
    ran = nsbox("doctor", "--json")
    rows = {row["name"]: row for row in json.loads(ran.out)["checks"]}
    tap.ok(rows["core_sched"]["ok"] in ("yes", "no"), "E43 doctor has a row core_sched", ran)
    tap.ok(rows["core_sched"]["ok"] == "yes" or rows["core_sched"]["remedy"], "E43 and a remedy where it is unavailable", ran)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([programs_of_the_project_are_not_run, an_init_next_to_the_caller_is_not_used,
               preloading_reaches_neither, a_misspelt_setting_is_an_error,
               what_cannot_be_enforced_is_refused, a_policy_file_fails_closed,
               a_cache_of_somebody_else_is_not_trusted,
               a_limit_that_is_not_in_force_is_not_claimed, a_limit_that_goes_away_is_missed, core_scheduling_is_not_claimed, nothing_survives_this_suite])
