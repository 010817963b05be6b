# as: root user userns container noclone3
"""Other processes, signals, survivors, sockets without a path, locks, terminals
(E09 E10 E12 E14 E22-E24 E42 A2 A3 A5 A6 A9 A20)."""

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import (ATTACK, IN_BOX, NSBOX, SCRATCH, attack, box, boxed_attack, environ,  # noqa: E402
                 has_writable_binds, nsbox, run)
from host import become_reaper, descendants, held_namespaces, kill_leftovers, leftovers  # noqa: E402
from tap import needs, run_tests  # noqa: E402

WITH_ATTACK = ("--ro", f"{ATTACK}:{IN_BOX}")


def start(*args, **popen):
    popen.setdefault("stdout", subprocess.DEVNULL)
    return subprocess.Popen([NSBOX, *args], env=environ(), cwd=SCRATCH, **popen)


# --- E10 E23 -------------------------------------------------------------------

def no_process_of_the_host_is_visible(tap):
    ran = box([], "sh", "-c", "ls /proc | grep '^[0-9]' | wc -l")
    tap.within(int(ran["stdout"]), 2, 6, "E10 /proc shows init, the shell and its children only", ran)
    got, ran = boxed_attack([], "kill", str(os.getpid()), "0")
    tap.equal(attack("kill", str(os.getpid()), "0"), "ok",
              "E23 without a box: this process can be signalled")
    tap.ok(os.getpid() < 64 or got == "errno=ESRCH",
           "E23 this process's pid is nobody in the box", f"{got}\n{ran}")


def init_cannot_be_traced_or_killed(tap):
    got, ran = boxed_attack([], "ptrace", "1")
    tap.equal(got, "errno=EPERM", "E10 init cannot be traced", ran)
    for path in ("/proc/1/mem", "/proc/1/root/etc", "/proc/1/fd/0", "/proc/1/environ",
                 "/proc/1/cwd/."):
        got, ran = boxed_attack([], "read", path)
        tap.among(got, ("errno=EACCES", "errno=ENOENT", "errno=EPERM"),
                  f"E10 {path} cannot be read", ran)
    ran = box([], "sh", "-c", "kill -9 1; kill -TERM 1; kill -STOP 1; sleep 0.2; echo alive")
    tap.equal((ran["stdout"], ran["verdict"]), ("alive\n", "exited"),
              "E23 signals to init from the payload do nothing", ran)


def kill_everything_stays_in_the_box(tap):
    bystander = subprocess.Popen(["sleep", "60"])
    # the control in a pid namespace of its own: the shell that started the act dies
    ran = run(["unshare", "-Urpf", "--kill-child", "--mount-proc", "sh", "-c",
               f"sleep 60 & {ATTACK} kill-all; wait $!; echo $?"])
    tap.equal(ran.text(), "ok\n137", "E23 without a box: SIGKILL to -1 kills the bystander")
    ran = box([*WITH_ATTACK], "sh", "-c", f"sleep 60 & {IN_BOX} kill-all; wait $!; echo $?")
    tap.among(ran["verdict"], ("exited", "signaled"), "E23 kill -9 -1 ends at the box's wall", ran)
    tap.equal(bystander.poll(), None, "E23 a process of the same user on the host lives on")
    bystander.kill()
    bystander.wait()


# --- E24 A2 A3 A9 E22 A20: nothing outlives the box --------------------------------

def nobody_outlives_the_payload(tap):
    scripts = {
        "a background child": "sleep 999 & exit 5",
        "setsid": "setsid sleep 999 & exit 5",
        "a deaf double-forking daemon": f"{IN_BOX} daemon 999; exit 5",
        "a daemon that closed everything": f"{IN_BOX} daemon 999 close; exit 5",
        "a stopped child": "sleep 999 & kill -STOP $!; exit 5",
    }
    for what, script in scripts.items():
        ran = box([*WITH_ATTACK], "sh", "-c", script)
        tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 5),
                  f"E24 {what} does not change the verdict", ran)
        tap.takes(ran.wall, 0, 2, f"A3 {what} does not delay the verdict", ran)
        if not tap.equal(leftovers(0.5), [], f"E24 {what} does not survive the box"):
            kill_leftovers()


def survivors_control(tap):
    run([ATTACK, "daemon", "3", "close"])
    time.sleep(0.2)
    tap.ok(descendants(), "E24 without a box: the daemon outlives its starter")
    kill_leftovers()


def a_deaf_payload_is_killed_on_time(tap):
    ran = box([*WITH_ATTACK, "--timeout", "1"], IN_BOX, "deaf", "60")
    tap.equal(ran["verdict"], "timed_out", "A9 a payload deaf to SIGTERM times out", ran)
    tap.equal(ran["stdout"], "deaf\n", "A9 its output is kept", ran)
    tap.equal(ran.rc, 124, "A9 the exit status is 124", ran)
    # the second, and the grace between SIGTERM and SIGKILL
    tap.takes(ran.wall, 1.0, 2.5, "A9 it ends within the time and the grace", ran)
    if not tap.equal(leftovers(0.5), [], "A9 nothing survives"):
        kill_leftovers()


def the_death_of_the_launcher_kills_the_box(tap):
    for number, what in ((signal.SIGKILL, "SIGKILL"), (signal.SIGTERM, "SIGTERM"),
                         (signal.SIGINT, "SIGINT"), (signal.SIGHUP, "SIGHUP")):
        proc = start("run", *WITH_ATTACK, "--", "sh", "-c",
                     f"{IN_BOX} daemon 999 >/dev/null; readlink /proc/self/ns/net /proc/self/ns/pid "
                     "/proc/self/ns/mnt; sleep 999", stdout=subprocess.PIPE)
        spaces = {proc.stdout.readline().decode().strip() for _ in range(3)}
        tap.ok(all(":[" in s for s in spaces), f"A20 {what}: the box runs", spaces)
        tap.ok(held_namespaces(spaces) or os.getuid(), f"A20 {what}: its namespaces are found")
        time.sleep(0.5)  # dash loses a SIGINT that comes while it starts a program, in a box or not
        proc.send_signal(number)
        began = time.monotonic()
        proc.wait(timeout=10)
        left = leftovers(1.0)
        tap.equal(left, [], f"E22 {what} to the launcher: every process is gone within 1 s")
        tap.takes(time.monotonic() - began, 0, 3, f"E22 {what}: the launcher ends soon")
        tap.equal(held_namespaces(spaces), [], f"A20 {what}: no namespace is left")
        proc.stdout.close()
        if left:
            kill_leftovers()


def a_killed_init_is_reported(tap):
    """From the host, init can be killed; that is not a success of the payload."""
    proc = start("run", "--json", "--", "sleep", "999", stdout=subprocess.PIPE)
    init = None
    end = time.monotonic() + 10
    while not init and time.monotonic() < end:
        for pid, name, _ in descendants(proc.pid):
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                    if "\t1\n" in next(ln for ln in f if ln.startswith("NSpid")):
                        init = pid
            except (OSError, StopIteration):
                pass
        if len(descendants(proc.pid)) < 2:
            init = None
    if not tap.ok(init, "E22 init can be found from the host"):
        proc.kill()
        proc.wait()
        return
    time.sleep(0.1)
    os.kill(init, signal.SIGKILL)
    out, _ = proc.communicate(timeout=10)
    tap.ok(b'"success":true' not in out.replace(b" ", b""), "E22 a killed init is no success", out)
    tap.ok(proc.returncode != 0, "E22 a killed init gives no exit status 0", proc.returncode)
    tap.equal(leftovers(1), [], "E22 a killed init leaves nothing")


# --- E12 E14 E42 --------------------------------------------------------------------

def abstract_sockets_of_the_host_are_elsewhere(tap):
    server = socket.socket(socket.AF_UNIX)
    name = f"nsbox-test-{os.getpid()}"
    server.bind("\0" + name)
    server.listen(8)
    tap.equal(attack("connect-abstract", name), "ok", "E12 without a box: it answers")
    got, ran = boxed_attack([], "connect-abstract", name)
    tap.equal(got, "errno=ECONNREFUSED", "E12 an abstract socket of the host is not there", ran)
    server.close()


def loopback_of_the_host_is_elsewhere(tap):
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(8)
    port = server.getsockname()[1]
    code = ("import socket; s = socket.socket(); s.settimeout(5)\n"
            f"try: s.connect(('127.0.0.1', {port})); print('connected')\n"
            "except OSError as e: print(e.errno)\n")
    tap.equal(run(["/usr/bin/python3", "-c", code]).text(), "connected",
              "E12 without a box: the host's port answers")
    ran = box([], "/usr/bin/python3", "-c", code)
    tap.equal(ran["stdout"], "111\n", "E12 the box's own loopback refuses: ECONNREFUSED", ran)
    code = ("import socket; s = socket.socket(); s.settimeout(5)\n"
            "try: s.connect(('192.0.2.1', 80)); print('connected')\n"
            "except OSError as e: print(e.errno)\n")
    ran = box([], "/usr/bin/python3", "-c", code)
    tap.equal(ran["stdout"], "101\n", "E12 nothing else is reachable: ENETUNREACH", ran)
    ran = box([], "sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")
    tap.equal(ran["stdout"].split(), ["lo"], "E12 lo is the only interface", ran)
    server.close()


def descriptors_do_not_travel_over_standard_streams(tap):
    for fd, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        here, there = socket.socketpair()
        tap.equal(send_rights(here, there, [ATTACK, "send-rights", str(fd)], fd), True,
                  f"E14 without a box: a descriptor travels over {name}")
        here.close()
        there.close()
        here, there = socket.socketpair()
        argv = [NSBOX, "run", "-i", *WITH_ATTACK, "--", IN_BOX, "send-rights", str(fd)]
        tap.equal(send_rights(here, there, argv, fd), False,
                  f"E14 no descriptor leaves a box over {name}")
        here.close()
        there.close()


def send_rights(here, there, argv, fd):
    """Run with a socket as descriptor @fd: did a descriptor arrive?"""
    streams = [subprocess.DEVNULL] * 3
    streams[fd] = there
    proc = subprocess.Popen(argv, stdin=streams[0], stdout=streams[1], stderr=streams[2],
                            env=environ(), cwd=SCRATCH)
    # nothing is sent to its stdin, so a relay must not wait for it for ever
    try:
        proc.wait(timeout=3 if fd else 2)
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.wait()
    here.setblocking(False)
    try:
        _, fds, _, _ = socket.recv_fds(here, 4096, 8)
    except BlockingIOError:
        fds = []
    for got in fds:
        os.close(got)
    return bool(fds)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def locks_in_two_boxes(tap):
    """The lock of one box on a file that both see must not stop the other (isolate 2.6)."""
    target = "/usr/bin/env"
    proc = subprocess.Popen([ATTACK, "flock", target, "10"], stdout=subprocess.PIPE)
    proc.stdout.readline()
    tap.equal(attack("flock", target, "0"), "errno=EAGAIN", "E42 without a box: the lock is shared")
    proc.kill()
    proc.wait()
    proc.stdout.close()
    place = os.path.join(SCRATCH, "locked")
    os.makedirs(place, exist_ok=True)
    got, ran = boxed_attack(["--rw", f"{place}:/w"], "flock", "/w", "0")
    tap.equal(got, "ok", "E42 a lock in a --rw folder works", ran)


def locks_can_be_denied(tap):
    """Boxes see the inodes of the host, so locks on them carry bits: a policy can end that."""
    target = os.path.join(SCRATCH, "read-only")  # of this suite: others lock files of the host
    with open(target, "w", encoding="utf-8"):
        pass
    os.chmod(target, 0o644)
    seen = ["--ro", f"{target}:/seen"]
    got, ran = boxed_attack(seen, "flock", "/seen", "0")
    tap.equal(got, "ok", "E42 by default a box can lock a file that it only reads", ran)
    got, ran = boxed_attack([*seen, "--set", "syscalls.deny=flock"], "flock", "/seen", "0")
    tap.equal(got, "errno=EPERM", "E42 with flock in syscalls.deny it cannot", ran)


# --- A5 A6 ------------------------------------------------------------------------------

def invalid_utf8_keeps_everything(tap):
    ran = box([], "sh", "-c", r"printf 'a\377\376b'; exit 7")
    tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 7),
              "A5 bytes that are no UTF-8 keep the exit code", ran)
    tap.equal((ran["stdout_encoding"], ran["stdout"], ran["stdout_bytes"]), ("base64", "Yf/+Yg==", 4),
              "A5 they come as base64, every byte", ran)


def stdin_is_not_inherited(tap):
    ran = run(["cat"], stdin=b"secret\n")
    tap.equal(ran.out, b"secret\n", "A6 without a box: stdin is read")
    ran = nsbox("run", "--", "cat", stdin=b"secret\n")
    tap.equal((ran.rc, ran.out), (0, b""), "A6 without -i stdin is empty", ran)
    ran = nsbox("run", "-i", "--", "cat", stdin=b"secret\n")
    tap.equal((ran.rc, ran.out), (0, b"secret\n"), "A6 with -i it is the caller's", ran)


# --- E09 ------------------------------------------------------------------------------------

def on_a_terminal(argv, seconds=5):
    """Run on a fresh terminal; (exit status, what was printed, what is typed ahead)."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(SCRATCH)
        os.execve(argv[0], argv, environ({"TERM": "dumb"}))
    out, end, status = b"", time.monotonic() + seconds, None
    while time.monotonic() < end:
        if select.select([master], [], [], 0.05)[0]:
            try:
                out += os.read(master, 4096)
            except OSError:
                break
        elif status is None:
            done, status = os.waitpid(pid, os.WNOHANG)
            status = status if done else None
        else:
            break
    if status is None:
        _, status = os.waitpid(pid, 0)
    os.close(master)
    return os.waitstatus_to_exitcode(status), out


def has_tiocsti():
    """Everybody does before Linux 6.2, which brought the switch."""
    try:
        with open("/proc/sys/dev/tty/legacy_tiocsti", encoding="utf-8") as f:
            return f.read().strip() == "1"
    except FileNotFoundError:
        return True


def nothing_is_typed_into_the_callers_terminal(tap):
    # What TIOCSTI pushed is what the next reader of the terminal gets.
    reader = "; IFS= read -r line <&0; echo \"got:$line\""
    control = ["/bin/sh", "-c", f"{ATTACK} push-input 'evil\n' {reader}"]
    if has_tiocsti():       # else the reader would wait for ever
        _, out = on_a_terminal(control)
        tap.ok(b"got:evil" in out, "E09 without a box: TIOCSTI types into the terminal", out)
    else:
        tap.skip("E09 without a box: TIOCSTI types into the terminal", "dev.tty.legacy_tiocsti=1")
    for flags in ("-i", "-t", "-i -t"):
        argv = ["/bin/sh", "-c",
                f"{NSBOX} run {flags} --ro {ATTACK}:{IN_BOX} -- {IN_BOX} push-input 'evil\n' </dev/tty; "
                "if read -r -t 1 line; then echo \"got:$line\"; else echo nothing; fi"]
        argv[0] = "/bin/bash"
        _, out = on_a_terminal(argv, 10)
        tap.ok(b"got:" not in out and b"nothing" in out,
               f"E09 with {flags} nothing is typed into the caller's terminal", out)
        tap.ok(b"errno=EPERM" in out or (flags == "-i" and b"errno=ENXIO" in out),
               f"E09 with {flags} TIOCSTI is refused", out)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([no_process_of_the_host_is_visible, init_cannot_be_traced_or_killed,
               kill_everything_stays_in_the_box, nobody_outlives_the_payload, survivors_control,
               a_deaf_payload_is_killed_on_time, the_death_of_the_launcher_kills_the_box,
               a_killed_init_is_reported, abstract_sockets_of_the_host_are_elsewhere,
               loopback_of_the_host_is_elsewhere,
               descriptors_do_not_travel_over_standard_streams, locks_in_two_boxes,
               locks_can_be_denied, invalid_utf8_keeps_everything, stdin_is_not_inherited,
               nothing_is_typed_into_the_callers_terminal, nothing_survives_this_suite])
