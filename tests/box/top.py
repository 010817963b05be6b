# as: root user
"""nsbox top: the caller's boxes, live, on terminals and for programs."""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, NSBOX, SCRATCH, box, environ, nsbox, own_mounts, run  # noqa: E402
from host import become_reaper, descendants, leftovers  # noqa: E402
from screen import Terminal  # noqa: E402
from tap import run_tests  # noqa: E402

PLACE = tempfile.mkdtemp(prefix="top.", dir=SCRATCH)   # where this suite's list is
ENV = {"XDG_RUNTIME_DIR": PLACE}
LIST = os.path.join(PLACE, "nsbox", "boxes.1")
MIB = 1 << 20


def start(*args, env=None):
    return subprocess.Popen([NSBOX, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=environ(env or ENV), cwd=SCRATCH)


def stop(proc):
    proc.kill()
    proc.communicate()


def look(*flags, env=None):
    """One look, parsed; there must be exactly one line and nothing else."""
    ran = nsbox("top", "--json", "--once", *flags, env=env or ENV)
    if ran.rc != 0 or ran.err or ran.out.count(b"\n") != 1:
        raise AssertionError(f"nsbox top --json --once\n{ran}")
    return json.loads(ran.out)


def shown(name, *flags, env=None):
    """The boxes of that name."""
    return [b for b in look(*flags, env=env)["boxes"] if b["name"] == name]


def wait_for(name, state="running", seconds=10):
    end = time.monotonic() + seconds
    while True:
        found = [b for b in shown(name, "--last", "1000") if b["state"] == state]
        if found or time.monotonic() > end:
            return found[0] if found else None
        time.sleep(0.05)


HOLDS_64_MIB = ("import subprocess, sys, time\n"
                "b = bytearray(b'x') * (64 << 20)\n"
                "p = [subprocess.Popen(['sleep', '60']) for _ in range(2)]\n"
                "print('ready', flush=True)\n"
                "time.sleep(60)\n")


def a_running_box_is_shown_with_what_it_uses(tap):
    proc = start("run", "--name", "holder", "-m", "200M", "--pids", "20", "--cpus", "0.5",
                 "--timeout", "40", "--", "/usr/bin/python3", "-c", HOLDS_64_MIB)
    tap.equal(proc.stdout.readline(), b"ready\n", "the box runs")
    b = wait_for("holder")
    tap.ok(b, "it is in the list")
    tap.equal(b["launcher_pid"], proc.pid, "with the pid of its launcher")
    tap.within(b["memory_bytes"], 64 * MIB, 110 * MIB, "it holds 64 MiB and an interpreter", b)
    tap.equal(b["memory_limit_bytes"], 200 * MIB, "of 200 MiB")
    tap.equal((b["pids"], b["pids_limit"]), (3, 20), "in three processes of twenty")
    tap.equal((b["cpus_limit"], b["timeout_ms"]), (0.5, 40000.0), "with its share of a core and its time")
    tap.within(b["age_ms"], 1, 30000, "it is some seconds old")
    tap.within(b["started_ms"] / 1000, time.time() - 30, time.time(), "since a moment ago")
    tap.equal((b["verdict"], b["exit_code"], b["signal"]), (None, None, None), "without a verdict")
    table = nsbox("top", "--once", env=ENV)
    line = [x for x in table.text().splitlines() if " holder " in x]
    tap.ok(line and re.fullmatch(b["id"] + r" holder +\d+(\.\d)?m?s +\d+% +\d+M/200M +3/20 running", line[0]),
           "the table says the same", table)
    stop(proc)
    b = wait_for("holder", "lost", 2)
    tap.ok(b, "the launcher is killed: the box is lost, with the lock of its slot")
    tap.equal((b["memory_bytes"], b["pids"], b["cpu"], b["age_ms"]), (None, None, None, None),
              "and nobody knows what it used")
    tap.equal(leftovers(2), [], "nothing of it is left")


def cpu_is_the_share_since_the_look_before(tap):
    busy = start("run", "--name", "busy", "--timeout", "30", "--", "sh", "-c", "while :; do :; done")
    tap.ok(wait_for("busy"), "a busy box runs")
    idle = start("run", "--name", "idle", "--timeout", "30", "--", "sleep", "30")
    tap.ok(wait_for("idle"), "and an idle one")
    top = start("top", "--json", "--interval", "0.5")
    lines = [json.loads(top.stdout.readline()) for _ in range(4)]
    top.send_signal(signal.SIGINT)
    top.communicate(timeout=10)
    tap.equal(top.returncode, 0, "--json is a stream of lines, which SIGINT ends")
    tap.equal({x["schema"] for x in lines}, {"nsbox.top/1"}, "each with the schema's name")
    looks = [{b["name"]: b for b in x["boxes"] if b["state"] == "running"} for x in lines]
    for old, new in zip(looks, looks[1:]):
        # How much a busy program gets depends on what else the machine does.
        used, time_ms = (new["busy"][k] - old["busy"][k] for k in ("cpu_ms", "age_ms"))
        tap.within(new["busy"]["cpu"], used / time_ms * 0.8 - 0.01, used / time_ms * 1.25 + 0.01,
                   "the busy one's share is what it used since the look before", (old, new))
    tap.within(looks[-1]["idle"]["cpu"], 0, 0.05, "the idle one has nothing", looks)
    tap.ok(looks[-1]["busy"]["cpu_ms"] > looks[0]["busy"]["cpu_ms"] > looks[-1]["idle"]["cpu_ms"],
           "the busy one has more and more", looks)
    names = [b["name"] for b in lines[-1]["boxes"] if b["name"] in ("busy", "idle")]
    tap.equal(names[:2], ["busy", "idle"], "the busiest comes first")
    aged = [b["name"] for b in look("--sort", "age")["boxes"] if b["state"] == "running" and b["name"] in ("busy", "idle")]
    tap.equal(aged, ["idle", "busy"], "--sort age: the youngest does")
    stop(busy)
    stop(idle)


def a_finished_box_is_shown_with_its_verdict(tap):
    rows = [("three", ("sh", "-c", "exit 3"), (), "exited 3"),
            ("slow", ("sleep", "20"), ("--timeout", "300ms"), "timed_out"),
            ("dead", ("sh", "-c", "kill -11 $$"), (), "signaled 11"),
            ("absent", ("/no/such/program",), (), "exited 127")]
    for name, command, flags, words in rows:
        ran = box(["--name", name, *flags], *command, env=ENV)
        tap.equal([(b["state"], b["verdict"], b["exit_code"], b["signal"]) for b in shown(name)],
                  [("finished", ran["verdict"], ran["exit_code"], ran["signal"])], f"{name}: its end is in the list", ran)
        table = nsbox("top", "--once", env=ENV).text()
        tap.ok(re.search(rf" {name} .* {words}$", table, re.M), f"{name}: the table says {words}", table)
    ran = nsbox("run", "--name", "used", "--json", "--", "/usr/bin/python3", "-c",
                "import time; e = time.time() + 0.5\nwhile time.time() < e: pass", env=ENV)
    usage, b = json.loads(ran.out)["usage"], shown("used")[0]
    tap.equal((b["age_ms"], b["cpu_ms"], b["memory_bytes"], b["pids"]),
              (usage["wall_ms"], round(usage["user_ms"] + usage["system_ms"], 3), usage["memory_peak_bytes"],
               usage["pids_peak"]), "time, processor time and peaks are those of the record")


def the_last_ones_are_shown(tap):
    for i in range(4):
        nsbox("run", "--name", f"n{i}", "--", "true", env=ENV)
    ended = [b["name"] for b in look("--last", "3")["boxes"] if b["state"] != "running"]
    tap.equal(ended, ["n3", "n2", "n1"], "--last 3: the last three, the latest first")
    tap.equal([b for b in look("--last", "0")["boxes"] if b["state"] != "running"], [], "--last 0: none")
    tap.ok(look("--last", "0")["ended"] >= 4, "but how many there are is said")


def the_name_is_all_that_is_told_of_a_command(tap):
    nsbox("run", "-e", "TOKEN=hush-env", "--", "/bin/sh", "-c", ": hush-arg", env=ENV)
    nsbox("code", "-c", "x = 'hush-code'", env=ENV)
    with open(LIST, "rb") as f:
        held = f.read()
    tap.ok(b"hush" not in held, "no argument, variable or source text is in the list")
    names = [b["name"] for b in look("--last", "2")["boxes"] if b["state"] == "finished"]
    tap.equal(names, ["python", "sh"], "a box is named after its language or its command")
    for name in ("a\x1b[2Jb", "", "x" * 64, "a\nb", "\u202egnp"):
        ran = nsbox("run", "--name", name, "--", "true", env=ENV)
        tap.equal((ran.rc, ran.err.count(b"\n"), b"\x1b" in ran.err), (125, 1, False),
                  f"--name {name[:10]!r} is refused", ran)


def nothing_of_the_list_is_in_the_box(tap):
    proc = start("run", "--name", "fds", "--timeout", "20", "--", "sh", "-c",
                 "ls -l /proc/self/fd /proc/1/fd 2>&1; ls -d /run/nsbox /tmp/nsbox* 2>&1; echo ready; sleep 20")
    seen = b""
    while b"ready" not in seen:
        line = proc.stdout.readline()
        if not line:
            break
        seen += line
    tap.ok(b"boxes" not in seen and b"\n/" not in seen.replace(b"\n/proc", b""), "the box sees no list", seen)
    tap.ok(wait_for("fds"), "while it is listed")

    def holders(pids):
        found = []
        for pid in pids:
            for link in glob.glob(f"/proc/{pid}/fd/*"):
                try:
                    if os.readlink(link) == LIST:
                        found.append(pid)
                except OSError:
                    pass
        return found

    tap.equal(holders([proc.pid]), [proc.pid], "the launcher holds the file")
    tap.equal(holders([p for p, _, _ in descendants(proc.pid)]), [], "no process of the box does")
    stop(proc)


def a_box_can_stay_out_of_the_list(tap):
    nsbox("run", "--name", "seen", "--", "true", env=ENV)
    ran = nsbox("run", "--name", "unseen", "--set", "observe.listed=false", "--", "true", env=ENV)
    tap.equal((ran.rc, len(shown("seen")), len(shown("unseen"))), (0, 1, 0), "observe.listed=false: it is not listed")


def a_place_that_is_not_the_callers_alone_is_not_used(tap):
    for what, prepare in (("a folder that others may enter", lambda d: os.mkdir(f"{d}/nsbox", 0o755)),
                          ("a link", lambda d: (os.mkdir(f"{d}/mine", 0o700), os.symlink(f"{d}/mine", f"{d}/nsbox"))),
                          ("a file", lambda d: open(f"{d}/nsbox", "w", encoding="utf-8").close())):
        place = tempfile.mkdtemp(prefix="odd.", dir=SCRATCH)
        prepare(place)
        ran = nsbox("run", "--name", "odd", "--", "true", env={"XDG_RUNTIME_DIR": place})
        tap.equal((ran.rc, ran.err), (0, b""), f"{what}: the run does not mind", ran)
        tap.equal(glob.glob(f"{place}/*/*"), [], f"{what}: nothing is written there")


def a_full_disk_is_no_error(tap):
    script = ("d=$1; mount -t tmpfs -o size=64k,mode=700 full $d && mkdir -m 700 $d/nsbox && "
              "{ cat /dev/zero > $d/filler 2>/dev/null; : > $d/nsbox/boxes.1; chmod 600 $d/nsbox/boxes.1; "
              "XDG_RUNTIME_DIR=$d $2 run --name full -- sh -c 'exit 7'; echo $?; stat -c %s $d/nsbox/boxes.1; "
              "mount -o remount,bind,ro $d; XDG_RUNTIME_DIR=$d $2 run --name full -- sh -c 'exit 8'; echo $?; }")
    ran = run([*own_mounts(), "sh", "-c", script, "sh", PLACE, NSBOX])
    tap.equal((ran.out, ran.err), (b"7\n0\n8\n", b""), "a full, then a read-only file system: the box runs", ran)


def other_users_do_not_see_it(tap):
    stranger = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", NSBOX, "top", "--json", "--once",
                "--last", "1000"]
    name, usual = f"private-{os.getpid()}", {"XDG_RUNTIME_DIR": ""}
    proc = start("run", "--name", name, "--timeout", "20", "--", "sleep", "20", env=usual)
    end = time.monotonic() + 5
    while not shown(name, env=usual) and time.monotonic() < end:
        time.sleep(0.05)
    tap.equal(len(shown(name, env=usual)), 1, "its owner sees it, in the usual place")
    for place in ("", PLACE, "/run"):
        ran = run(stranger, env={"XDG_RUNTIME_DIR": place})
        tap.equal((ran.rc, [b["name"] for b in json.loads(ran.out)["boxes"]]), (0, []),
                  f"another user sees nothing (XDG_RUNTIME_DIR={place})", ran)
    stop(proc)


def the_root_of_a_users_namespace_is_that_user(tap):
    """Not the root of others': they may share one /tmp."""
    name, usual = f"inside-{os.getpid()}", {"XDG_RUNTIME_DIR": ""}
    ran = run(["unshare", "-Ur", NSBOX, "run", "--name", name, "--", "true"], env=usual)
    tap.equal(ran.rc, 0, "a box in a user namespace of the user's own runs", ran)
    tap.equal([b["verdict"] for b in shown(name, env=usual)], ["exited"], "and is in the user's list outside")


def frames(out):
    return out.split(b"\x1b[H")


def on_a_terminal_it_draws_over_itself(tap):
    nsbox("run", "--name", "drawn", "--", "true", env=ENV)
    for what, act, status in (("q", lambda t: t.type(b"q"), 0), ("^C", lambda t: t.type(b"\x03"), 0),
                              ("SIGTERM", lambda t: os.kill(t.pid, signal.SIGTERM), 143)):
        t = Terminal(NSBOX, "top", "--interval", "200ms", env=ENV)
        before = t.settings()
        tap.ok(t.expect(b"drawn"), f"{what}: it shows the table", t.out)
        end = time.monotonic() + 5
        while t.out.count(b"\x1b[H") < 4 and time.monotonic() < end:
            t.expect(b"\0", 0.2)
        tap.ok(t.out.count(b"\x1b[H") >= 4, f"{what}: again and again, from the top", t.out)
        tap.ok(t.settings() != before, f"{what}: keys come at once")
        act(t)
        tap.equal(t.finish(), status, f"{what} ends it with {status}", t.out[-300:])
        tap.ok(t.out.endswith(b"\x1b[?25h"), f"{what}: the cursor is back", t.out[-100:])
    t = Terminal("/bin/sh", "-c", f"{NSBOX} top; echo after; read x", env=ENV)
    before = t.settings()
    t.expect(b"drawn")
    t.type(b"xyzq")
    tap.ok(t.expect(b"after"), "the caller goes on", t.out[-300:])
    tap.equal(t.settings(), before, "on a terminal as it was")
    tap.ok(b"xyz" not in t.out, "keys are not shown", t.out[-300:])
    t.type(b"\r")
    t.finish()


def a_stop_gives_the_terminal_back(tap):
    t = Terminal(NSBOX, "top", "--interval", "200ms", env=ENV)
    before = t.settings()
    tap.ok(t.expect(b"nsbox top"), "it runs", t.out)
    t.type(b"\x1a")
    end, stopped = time.monotonic() + 5, (0, 0)
    while not stopped[0] and time.monotonic() < end:
        t.expect(b"\0", 0.05)
        stopped = os.waitpid(t.pid, os.WNOHANG | os.WUNTRACED)
    tap.ok(stopped[0] and os.WIFSTOPPED(stopped[1]), "^Z stops it", stopped)
    tap.equal(t.settings(), before, "the terminal is as it was")
    os.kill(t.pid, signal.SIGCONT)
    t.out = b""
    tap.ok(t.expect(b"nsbox top"), "it goes on where it was", t.out)
    t.type(b"q")
    tap.equal(t.finish(), 0, "and ends as ever")


def plain(frame):
    return [re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", x).decode() for x in frame.split(b"\r\n")]


def it_fits_the_screen(tap):
    for i in range(8):
        nsbox("run", "--name", f"fit{i}", "--", "true", env=ENV)
    t = Terminal(NSBOX, "top", "--interval", "200ms", "--last", "20", env=ENV)
    tap.ok(t.expect(b"fit0"), "on a large screen all is shown", t.out)
    tap.ok(b"... " not in t.out, "and nothing is left out", t.out)
    t.resize(8, 40)
    tap.ok(t.expect(b" more"), "on a small one it says how many more there are", t.out)
    time.sleep(0.5)
    t.type(b"q")
    t.finish()
    last = plain(frames(t.out)[-1])
    tap.ok(len(last) <= 8, "it has no more lines than the screen", last)
    tap.ok(max(map(len, last)) <= 40 and any(len(x) == 40 for x in last), "nor more columns", last)
    total = int(re.search(r"\.\.\. (\d+) more", "\n".join(last))[1])
    tap.equal(total, look("--last", "20")["running"] + min(20, look("--last", "0")["ended"]) - (len(last) - 4),
              "the number of the rest is right", last)


def a_dumb_terminal_gets_no_escape_sequence(tap):
    for term in ("dumb", ""):
        t = Terminal(NSBOX, "top", "--interval", "200ms", env={**ENV, "TERM": term})
        end = time.monotonic() + 5
        while t.out.count(b"nsbox top:") < 3 and time.monotonic() < end:
            t.expect(b"\0", 0.2)
        t.type(b"q")
        tap.equal(t.finish(), 0, f"TERM={term!r}: q ends it", t.out[-200:])
        tap.ok(t.out.count(b"nsbox top:") >= 3, f"TERM={term!r}: one table after the other", t.out)
        tap.ok(b"\x1b" not in t.out, f"TERM={term!r}: no escape", t.out)
    ran = run(["timeout", "-s", "INT", "1", NSBOX, "top", "--interval", "200ms"], env={**ENV, "TERM": "xterm"})
    tap.ok(ran.out.count(b"nsbox top:") >= 2 and b"\x1b" not in ran.out, "a pipe neither", ran)
    t = Terminal("/bin/sh", "-c", f"{NSBOX} top --json --interval 200ms", env=ENV)
    tap.ok(t.expect(b"}]}"), "--json on a terminal is JSON", t.out)
    t.type(b"\x03")
    t.finish()
    tap.ok(b"\x1b" not in t.out, "and nothing else", t.out)


def a_reader_that_leaves_ends_it(tap):
    proc = start("top", "--json", "--interval", "100ms")
    tap.ok(json.loads(proc.stdout.readline()), "the first line comes")
    proc.stdout.close()
    tap.equal(proc.wait(timeout=10), -signal.SIGPIPE, "a reader that leaves ends it, as it does cat")
    tap.equal(proc.stderr.read(), b"", "without a word")
    proc.stderr.close()


def wrong_calls_are_one_line(tap):
    for args in (("--interval", "0"), ("--interval", "x"), ("--interval", "1h5"), ("--interval", "99999999"),
                 ("--last", "-1"), ("--last", "many"), ("--sort", "size"), ("box",), ("--timeout", "3")):
        ran = nsbox("top", *args, env=ENV)
        tap.equal((ran.rc, ran.out, ran.err.count(b"\n")), (125, b"", 1), f"top {' '.join(args)}: 125, one line", ran)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


# Only root can become a user of its own choice.
AS_ROOT = [other_users_do_not_see_it] if AS in ("root", "container") else []
AS_USER = [the_root_of_a_users_namespace_is_that_user] if AS == "user" else []

if __name__ == "__main__":
    become_reaper()
    run_tests([a_running_box_is_shown_with_what_it_uses, cpu_is_the_share_since_the_look_before,
               a_finished_box_is_shown_with_its_verdict, the_last_ones_are_shown,
               the_name_is_all_that_is_told_of_a_command, nothing_of_the_list_is_in_the_box,
               a_box_can_stay_out_of_the_list, a_place_that_is_not_the_callers_alone_is_not_used,
               a_full_disk_is_no_error, *AS_ROOT, *AS_USER, on_a_terminal_it_draws_over_itself,
               a_stop_gives_the_terminal_back, it_fits_the_screen, a_dumb_terminal_gets_no_escape_sequence,
               a_reader_that_leaves_ends_it, wrong_calls_are_one_line, nothing_survives_this_suite])
