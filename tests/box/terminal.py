# as: root user
"""-t: a terminal of the box's own, relayed to the caller's."""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, nsbox  # noqa: E402
from host import become_reaper, descendants, leftovers  # noqa: E402
from screen import Terminal  # noqa: E402
from tap import run_tests  # noqa: E402


def box(*command, flags=()):
    return Terminal(NSBOX, "run", "-t", *flags, "--", *command)


def it_is_a_terminal_of_its_own(tap):
    t = box("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo all three; tty; stty size; "
            "ls -l /proc/self/fd/0")
    t.expect(b"30 100")
    status = t.finish()
    tap.equal(status, 0, "-t runs", t.out)
    tap.ok(b"all three" in t.out, "stdin, stdout and stderr are terminals", t.out)
    tap.ok(b"/dev/pts/0" in t.out or b"/dev/tty" in t.out or b"/dev/console" in t.out,
           "it has a name in the box", t.out)
    tap.ok(b"30 100" in t.out, "it has the size of the caller's", t.out)


def status_and_output(tap):
    for code in (0, 3, 130):
        t = box("sh", "-c", f"echo out; echo err >&2; exit {code}")
        tap.equal(t.finish(), code, f"-t: exit {code} comes through", t.out)
        tap.ok(b"out" in t.out and b"err" in t.out, f"-t: exit {code} with its output", t.out)
    t = box("sh", "-c", "kill -9 $$")
    tap.equal(t.finish(), 137, "-t: death of signal 9 is 137", t.out)


def typing_reaches_the_program(tap):
    t = box("sh", "-c", "echo ready; read line; echo got:$line")
    tap.ok(t.expect(b"ready"), "the program waits", t.out)
    t.type(b"hello\r")
    tap.ok(t.expect(b"got:hello"), "a typed line reaches it", t.out)
    tap.equal(t.finish(), 0, "and it ends", t.out)
    t = box("cat")
    time.sleep(0.3)
    t.type(b"line\r")
    t.expect(b"line")
    t.type(b"\x04")
    tap.equal(t.finish(), 0, "^D is the end of the input", t.out)


def interrupt_and_job_control(tap):
    t = box("sh", "-c", "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.1; done")
    tap.ok(t.expect(b"ready"), "the program runs", t.out)
    t.type(b"\x03")
    tap.ok(t.expect(b"interrupted"), "^C reaches the program in the box", t.out)
    tap.equal(t.finish(), 9, "which decides how to end", t.out)
    t = box("sh", "-c", "echo ready; exec sleep 60")
    t.expect(b"ready")
    t.type(b"\x03")
    tap.equal(t.finish(), 130, "^C without a handler ends it with 130", t.out)
    t = box("sh", "-c", "echo ready; exec sleep 60")
    t.expect(b"ready")
    t.type(b"\x1c")
    tap.equal(t.finish(), 131, "^\\ ends it with 131", t.out)
    t = box("bash", "--norc", "-i")
    t.expect(b"$ ")
    t.type(b"sleep 60\r")
    time.sleep(0.5)
    t.type(b"\x1a")
    tap.ok(t.expect(b"Stopped"), "^Z stops a job of a shell in the box", t.out)
    t.type(b"kill -9 %1; wait %1\r")   # bash refuses to leave a job that it still takes for stopped
    time.sleep(0.5)
    t.type(b"echo; exit 4\r")
    tap.equal(t.finish(), 4, "and the shell goes on", t.out)
    tap.ok(b"no job control" not in t.out and b"cannot set terminal" not in t.out,
           "the shell has job control", t.out)


def the_size_follows(tap):
    t = box("sh", "-c", "trap 'stty size' WINCH; echo ready; while :; do sleep 0.1; done")
    tap.ok(t.expect(b"ready"), "the program runs", t.out)
    t.resize(50, 132)
    os.kill(t.pid, signal.SIGWINCH)
    tap.ok(t.expect(b"50 132"), "a new size of the caller's terminal reaches the program", t.out)
    t.type(b"\x03")
    t.finish()


# "exec": a dash that is just starting a child loses the ^C, with a box or without.
def the_callers_terminal_is_restored(tap):
    for what, script, typed in (("an exit", "exit 1", b""), ("^C", "echo ready; exec sleep 60", b"\x03"),
                                ("a program that sets raw mode", "stty raw -echo; exit 0", b"")):
        t = Terminal("/bin/sh", "-c", f"{NSBOX} run -t -- sh -c '{script}'; echo after; read x")
        before = t.settings()
        if typed:
            t.expect(b"ready")
            raw = t.settings()
            tap.ok(raw != before, f"{what}: meanwhile the caller's terminal is raw")
            t.type(typed)
        tap.ok(t.expect(b"after"), f"{what}: the caller goes on", t.out)
        tap.equal(t.settings(), before, f"{what}: its terminal is as before", t.out)
        t.type(b"\r")
        t.finish()
    t = Terminal("/bin/sh", "-c", f"{NSBOX} run -t --timeout 500ms -- sleep 60; echo after:$?; read x")
    before = t.settings()
    tap.ok(t.expect(b"after:124"), "a timeout: 124", t.out)
    tap.equal(t.settings(), before, "a timeout: its terminal is as before")
    t.type(b"\r")
    t.finish()
    t = Terminal("/bin/sh", "-c", f"{NSBOX} run -t -- sh -c 'echo ready; exec sleep 60' & p=$!; wait $p; "
                 "echo after; read x")
    t.type(b"\r")
    t.finish(2)


def a_hangup_ends_the_box(tap):
    t = box("sh", "-c", "trap '' HUP; echo ready; exec sleep 60")
    tap.ok(t.expect(b"ready"), "the program runs")
    os.close(t.fd)
    end = time.monotonic() + 5
    done = 0
    while not done and time.monotonic() < end:
        done, _ = os.waitpid(t.pid, os.WNOHANG)
        time.sleep(0.05)
    tap.ok(done, "closing the caller's terminal ends nsbox")
    if not done:
        os.kill(t.pid, 9)
        os.waitpid(t.pid, 0)
    tap.equal(leftovers(1), [], "and all of the box")


EVIL = r"printf 'a\033]52;c;ZXZpbA==\007b\033]0;title\007c\033Pq\033\\d\033[6ne\033[1;31mf\033[0m\n'; sleep 0.2"


def escape_sequences_end_at_the_callers_terminal(tap):
    """E50: what a terminal obeys beyond its screen; the control is the same without the filter."""
    for what, flags, want in (
            ("relayed", ("run",), b"abcde\x1b[1;31mf\x1b[0m"),
            ("-t", ("run", "-t"), b"abcd\x1b[6ne\x1b[1;31mf\x1b[0m"),
            ("--raw-escapes", ("run", "--raw-escapes"),
             b"a\x1b]52;c;ZXZpbA==\x07b\x1b]0;title\x07c\x1bPq\x1b\\d\x1b[6ne\x1b[1;31mf\x1b[0m")):
        t = Terminal(NSBOX, *flags, "--", "sh", "-c", EVIL)
        t.expect(b"f\x1b[0m")
        tap.equal(t.finish(), 0, f"E50 {what}: it runs", t.out)
        tap.ok(want in t.out, f"E50 {what}: what reaches the terminal", t.out)
    ran = nsbox("run", "--", "sh", "-c", EVIL)
    tap.ok(b"\x1b]52;c;ZXZpbA==\x07" in ran.out, "E50 a pipe gets every byte as it is", ran)


def names_below(pid):
    return sorted(name for _, name, state in descendants(pid) if state != "Z")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        user, system = f.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def a_stopped_terminal_holds_up_no_deadline(tap):
    """Nobody reads (or ^S was typed), so a blocking write would never return."""
    for what, flags in (("relayed", ("run",)), ("-t", ("run", "-t"))):
        t = Terminal(NSBOX, *flags, "--timeout", "1", "--", "yes")
        time.sleep(0.7)
        tap.ok("yes" in names_below(t.pid), f"{what}: the program runs", names_below(t.pid))
        time.sleep(1.0)
        tap.equal(names_below(t.pid), [], f"{what}: it is dead soon after its second, unread")
        tap.equal(os.waitpid(t.pid, os.WNOHANG)[0], 0, f"{what}: the rest of its output waits")
        tap.takes(cpu_seconds(t.pid), 0, 0.4, f"{what}: without being busy")
        tap.equal(t.finish(), 124, f"{what}: once it is read, 124", t.out[-200:])
        tap.ok(t.out.count(b"y\r\n") > 10000, f"{what}: and comes whole", len(t.out))


def without_a_terminal(tap):
    ran = nsbox("run", "-t", "--", "sh", "-c", "test -t 1 && echo terminal", stdin=b"")
    tap.ok((ran.rc == 125 and ran.err.count(b"\n") == 1) or b"terminal" in ran.out,
           "-t without a terminal works or is refused in one line", ran)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([it_is_a_terminal_of_its_own, status_and_output, typing_reaches_the_program,
               interrupt_and_job_control, the_size_follows, the_callers_terminal_is_restored,
               a_hangup_ends_the_box, escape_sequences_end_at_the_callers_terminal,
               a_stopped_terminal_holds_up_no_deadline, without_a_terminal, nothing_survives_this_suite])
