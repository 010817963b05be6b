# as: walls rootwalls
"""Attacks from a box without namespaces (isolation.floor=landlock): its processes are the host's,
and its user is the caller, or with root an id of its own. Each act runs without a box first.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import (ATTACK, NSBOX, SCRATCH, WALLS, attack, box, boxed_attack, environ, nsbox, rounds,  # noqa: E402
                 run)
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

ROOT = os.getuid() == 0
PYTHON = "/usr/bin/python3"
PLACE = os.path.join(SCRATCH, "place")


@contextlib.contextmanager
def victim():
    """A process of the caller's, outside of every box."""
    proc = subprocess.Popen(["sleep", "600"])
    try:
        yield proc
    finally:
        proc.kill()
        proc.wait()


def fresh_place():
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(f"{PLACE}/folder")
    for name in ("secret", "target", "shown"):
        with open(f"{PLACE}/{name}", "w", encoding="ascii") as f:
            f.write(f"{name}\n")
    os.chmod(f"{PLACE}/secret", 0o600)


def both(tap, rows, flags=(), before=lambda: None):
    """Rows of (act, answer without a box, answer in it); @before each of them."""
    for act, bare, want in rows:
        before()
        tap.equal(attack(*act), bare, f"without a box: {' '.join(act)[:70]}")
        before()
        got, ran = boxed_attack(flags, *act)
        tap.equal(got, want, f"in it: {' '.join(act)[:70]}", ran)


LIBC = ("import ctypes, errno, sys\nl = ctypes.CDLL(None, use_errno=True)\n"
        "r = getattr(l, sys.argv[1])(*(ctypes.c_long(int(a)) for a in sys.argv[2:]))\n"
        "print('ok' if r >= 0 else errno.errorcode[ctypes.get_errno()])")


def libc_calls(tap, rows):
    """Rows of (words of a call of libc with numbers, answer without a box, answer in it)."""
    for call, bare, want in rows:
        tap.equal(run([PYTHON, "-c", LIBC, *call.split()]).text(), bare, f"without a box: {call}")
        ran = box([], PYTHON, "-c", LIBC, *call.split())
        tap.equal(ran["stdout"].strip(), want, f"in it: {call}", ran)


def files_of_the_host_are_out_of_reach(tap):
    fresh_place()
    both(tap, [
        (("read", f"{PLACE}/secret"), "secret", "errno=EACCES"),
        (("read", f"{PLACE}/target"), "target", "errno=EACCES"),
        (("create", f"{PLACE}/made"), "ok", "errno=EACCES"),
        (("open-write", f"{PLACE}/target"), "ok", "errno=EACCES"),
        (("open-trunc", f"{PLACE}/target"), "ok", "errno=EACCES"),
        (("folder", f"{PLACE}/made.d"), "ok", "errno=EACCES"),
        (("symlink", "/etc/passwd", f"{PLACE}/link"), "ok", "errno=EACCES"),
        (("rename", f"{PLACE}/folder", f"{PLACE}/folder2"), "ok", "errno=EACCES"),
        (("remove", f"{PLACE}/target"), "ok", "errno=EACCES"),
    ], before=fresh_place)


def what_may_be_read_cannot_be_changed(tap):
    """Modes, owners, times and attributes are nothing that Landlock knows of."""
    fresh_place()
    shown = f"{PLACE}/shown"
    flags = ["--ro", shown]
    got, ran = boxed_attack(flags, "read", shown)
    tap.equal(got, "shown", "a file that the policy shows is read", ran)
    before = os.stat(shown)
    for act in ("chmod", "fchmodat", "fchmodat2"):
        os.chmod(shown, 0o644)
        got, ran = boxed_attack(flags, act, shown, "0666")
        tap.equal(got, "errno=EPERM", f"its mode is not: {act}", ran)
        tap.equal(os.stat(shown).st_mode & 0o777, 0o644, f"and stays: {act}")
        tap.equal(attack(act, shown, "0666"), "ok", f"without a box it is: {act}")
    script = f"import os\nfd = os.open({shown!r}, 0)\ntry: os.fchmod(fd, 0o666); print('ok')\nexcept OSError as e: print(e.errno)"
    tap.equal(run([PYTHON, "-c", script]).text(), "ok", "fchmod of an open file works without a box")
    os.chmod(shown, 0o644)
    ran = box(flags, PYTHON, "-c", script)
    tap.equal(ran["stdout"].strip(), "1", "and not in it", ran)
    os.chmod(shown, 0o644)
    script = (f"import os\nfor f in (lambda: os.utime({shown!r}, (1, 1)), lambda: os.utime(os.open({shown!r}, 0), (1, 1)), lambda: os.chown({shown!r}, -1, os.getgid()),\n"
              f"          lambda: os.setxattr({shown!r}, 'user.x', b'1')):\n"
              "    try: f(); print('ok')\n    except OSError as e: print(e.errno)\n")
    tap.equal(run([PYTHON, "-c", script]).text().split()[0], "ok", "without a box its time is set")
    os.utime(shown, ns=(before.st_atime_ns, before.st_mtime_ns))
    ran = box(flags, PYTHON, "-c", script)
    tap.equal(ran["stdout"].split(), ["1", "1", "1", "13" if ROOT else "95"], "times and owner: EPERM, attributes: not supported", ran)
    tap.equal(os.stat(shown).st_mtime_ns, before.st_mtime_ns, "and its time stays")


def modes_are_set_in_its_own_folder_alone(tap):
    """Where the box's user is the caller init does it, from a name that it reads once."""
    fresh_place()
    target = f"{PLACE}/shown"
    os.chmod(target, 0o604)
    script = ("import os, stat\nos.umask(0)\nopen('f', 'w'); os.mkdir('d')\n"
              "def mode(p): return oct(stat.S_IMODE(os.stat(p).st_mode))\n"
              "os.chmod('f', 0o640); print(mode('f')); os.chmod(os.getcwd() + '/d', 0o711); print(mode('d'))\n"
              "fd = os.open('f', 0); os.fchmod(fd, 0o600); print(mode('f'))\n"
              "dirfd = os.open('d', 0); open('d/g', 'w'); os.chmod('g', 0o604, dir_fd=dirfd); print(mode('d/g'))\n"
              "os.utime('f', (7, 7)); print(os.stat('f').st_mtime)\n"
              f"os.symlink({target!r}, 'out'); os.symlink('f', 'in')\n"
              "def tried(f):\n    try: f(); return 'ok'\n    except OSError as e: return e.errno\n"
              "print(tried(lambda: os.chmod('out', 0o666)), tried(lambda: os.chmod('in', 0o620)), mode('f'))\n"
              f"print(tried(lambda: os.link({target!r}, 'hard')), tried(lambda: os.chmod('../boot', 0o777)))\n"
              f"print(tried(lambda: os.chmod('f', 0o4755)), tried(lambda: os.chmod('nothing', 0o600)), tried(lambda: os.chmod('', 0o600)))\n")
    ran = box(["--ro", target], PYTHON, "-c", script)
    tap.equal(ran["stdout"].split("\n")[:6], ["0o640", "0o711", "0o600", "0o604", "7.0", "1 ok 0o620"], "modes and times of its own files", ran)
    got = ran["stdout"].split("\n")[6:8]
    tap.ok(got[0].split()[0] in ("1", "13", "18") and got[0].split()[1] == "1", "no file of the host's by a link, nor nsbox's own", ran)
    tap.equal(got[1], "1 2 2", "no setuid bit; what is not there is not there", ran)
    tap.equal(os.stat(target).st_mode & 0o777, 0o604, "the file of the host is as it was")
    flip = ("import ctypes, os, sys, threading, time\nl = ctypes.CDLL(None)\nopen('f', 'w')\n"
            f"good, bad = os.path.abspath('f').encode(), {target!r}.encode()\n"
            "at = ctypes.create_string_buffer(4096)\nstop = False\n"
            "def change():\n    while not stop:\n        ctypes.memmove(at, bad + b'\\0', len(bad) + 1); ctypes.memmove(at, good + b'\\0', len(good) + 1)\n"
            "t = threading.Thread(target=change); t.start(); sys.setswitchinterval(1e-6)\n"
            "end, n, hit = time.monotonic() + 0.5, 0, 0\n"
            f"while n < {rounds(4000)} or time.monotonic() < end:\n    n += 1; hit += l.chmod(at, 0o666) == 0\n"
            "print(hit > 0)\nstop = True\n")
    ran = box(["--ro", target], PYTHON, "-c", flip)
    tap.equal(ran["stdout"], "True\n", "a race for the name: some calls were for its own file", ran)
    tap.equal(os.stat(target).st_mode & 0o777, 0o604, "and the file of the host is as it was")
    for _ in range(20):
        run([PYTHON, "-c", flip], cwd=PLACE)
        if os.stat(target).st_mode & 0o777 == 0o666:
            break
    tap.equal(os.stat(target).st_mode & 0o777, 0o666, "without a box it is hit")


def other_processes_are_out_of_reach(tap):
    with victim() as other:
        pid = str(other.pid)
        both(tap, [
            (("kill", pid, "0"), "ok", "errno=EPERM"),
        ])
        libc_calls(tap, [
            (f"tgkill {pid} {pid} 0", "ok", "EPERM"), (f"sched_setaffinity {pid} 0 0", "EINVAL", "EPERM"),
            (f"setpriority 0 {pid} 1", "ok", "EPERM"), ("setpriority 2 0 1", "EPERM" if ROOT else "ok", "EPERM"),
            ("setpriority 0 0 1", "ok", "ok"), (f"prlimit {pid} 7 0 0", "ok", "EPERM"), ("prlimit 0 7 0 0", "ok", "ok"),
        ])
        for name in ("mem", "environ", "root/etc/passwd", "cwd", "fd/0", "maps", "cmdline", "status"):
            got, ran = boxed_attack([], "read", f"/proc/{pid}/{name}")
            tap.equal(got, "errno=EACCES", f"/proc/PID/{name} of another process", ran)
        tap.equal(attack("read", f"/proc/{pid}/cmdline")[:5], "sleep", "without a box it is read")
        got, ran = boxed_attack(["--set", "syscalls.level=debug"], "ptrace", pid)
        tap.equal(got, "errno=EPERM", "ptrace of another process, where the level lets ptrace through", ran)
        tap.equal(other.poll(), None, "it still lives")


def kill_all_kills_the_box_alone(tap):
    with victim() as other:
        ran = box(["--ro", f"{ATTACK}:/attack"], "sh", "-c", f"setsid sleep 4321 & {ATTACK} kill-all; echo alive")
        tap.equal(other.poll(), None, "kill(-1) in a box: the caller's processes live", ran)
        tap.equal((ran["verdict"], ran["signal"]), ("signaled", 9), "its own die", ran)
        tap.equal(run(["pgrep", "-f", "sleep 4321"]).text(), "", "all of them")
        script = "import os\nfor p in (os.getppid(), os.getpid()):\n    try: os.kill(p, 0); print('ok')\n    except OSError as e: print(e.errno)\n"
        ran = box([], PYTHON, "-c", script)
        tap.equal(ran["stdout"].split(), ["1", "ok"], "init is out of reach, what is in the box is not", ran)


def sockets_lead_nowhere(tap):
    path, name = os.path.join(SCRATCH, "sock"), f"nsbox-walls-{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two, socket.create_server(("127.0.0.1", 0)) as tcp:
        one.bind(path)
        one.listen()
        two.bind("\0" + name)
        two.listen()
        both(tap, [
            (("connect", path), "ok", "errno=EACCES"), (("connect-abstract", name), "ok", "errno=EACCES"),
            (("socket", "2", "1", "0"), "ok", "errno=EACCES"), (("socket", "2", "2", "0"), "ok", "errno=EACCES"),
            (("socket", "10", "1", "0"), "ok", "errno=EACCES"), (("socket", "16", "3", "0"), "ok", "errno=EACCES"),
            (("socketpair", "1", "1", "0"), "ok", "ok"), (("socketpair", "1", "2", "0"), "ok", "errno=EPERM"),
        ])
        script = f"import socket; socket.create_connection(('127.0.0.1', {tcp.getsockname()[1]})); print('in')"
        tap.equal(run([PYTHON, "-c", script]).text(), "in", "a server on loopback is reached without a box")
        ran = box(["--net", "open"], PYTHON, "-c", script)
        tap.ok("in" not in ran["stdout"].split() and "ConnectionRefused" in ran["stderr"], "nor is it with a network", ran)
    os.unlink(path)


def nothing_is_shared_in_memory(tap):
    def no_file():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/dev/shm/nsbox-walls-{os.getpid()}")

    both(tap, [
        (("create", f"/dev/shm/nsbox-walls-{os.getpid()}"), "ok", "errno=EACCES"),
    ], before=no_file)
    no_file()
    libc_calls(tap, [
        ("shmget 0 4096 512", "ok", "ENOSYS"), ("semget 0 1 512", "ok", "ENOSYS"), ("msgget 0 512", "ok", "ENOSYS"),
    ])
    number = {"x86_64": "241", "aarch64": "181"}[os.uname().machine]
    both(tap, [(("call", number, "0"), "errno=EFAULT", "errno=ENOSYS")])     # mq_unlink


def folders_that_cannot_be_read_cannot_be_watched(tap):
    fresh_place()
    script = ("import ctypes, sys\nl = ctypes.CDLL(None, use_errno=True)\nf = l.inotify_init1(0)\n"
              "print(l.inotify_add_watch(f, sys.argv[1].encode(), 2) > 0, ctypes.get_errno())")
    tap.equal(run([PYTHON, "-c", script, PLACE]).text().split()[0], "True", "inotify works without a box")
    ran = box([], PYTHON, "-c", script, PLACE)
    tap.equal(ran["stdout"].split(), ["False", "13"], "in it: EACCES", ran)


def nothing_more_can_be_gained(tap):
    got, ran = boxed_attack([], "unshare", "mnt")
    tap.equal(got, "errno=EPERM", "no new namespace", ran)
    ran = box([], "sh", "-c", "su -c id root </dev/null; id -u; mount -t tmpfs x /tmp; echo $?")
    tap.equal([line for line in ran["stdout"].split("\n") if "uid=0" in line], [], "no setuid program gives root", ran)
    ran = box([], PYTHON, "-c", "import os\nopen_ = []\nfor n in range(3, 256):\n    try: os.fstat(n); open_.append(n)\n"
              "    except OSError: pass\nprint(open_)")
    tap.equal(ran["stdout"].strip(), "[]", "no descriptor but the three", ran)


def whatever_stays_behind_is_ended(tap):
    scripts = {
        "setsid": "setsid sleep 4321 & exit 5", "a double fork": "(setsid sh -c 'sleep 4321 & exit' &) ; exit 5",
        "a stopped child": "sleep 4321 & kill -STOP $!; exit 5",
        "deaf to signals": "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM INT; sleep 4321; sleep 4321' & exit 5",
    }
    for what, script in scripts.items():
        ran = box([], "sh", "-c", script)
        tap.equal(ran["exit_code"], 5, f"{what}: the program's own end", ran)
        tap.equal(run(["pgrep", "-f", "sleep 4321"]).text(), "", f"{what}: nothing lives on")
    ran = box(["--timeout", "500ms"], "sh", "-c", "setsid sleep 4321 & sleep 4321")
    tap.equal(ran["verdict"], "timed_out", "the time is over", ran)
    tap.equal(run(["pgrep", "-f", "sleep 4321"]).text(), "", "and so is all of it")
    ran = box(["--pids", "40", "--timeout", "20s", "--ro", f"{ATTACK}:/attack"], "/attack", "fork-bomb", "0", limit=60)
    tap.ok(ran["verdict"] in ("pids_limit", "timed_out", "exited"), "a fork bomb ends", ran)
    tap.equal(run(["pgrep", "-f", "fork-bomb"]).text(), "", "with all its forks")


def folders():
    return sorted(d for d in os.listdir("/tmp") if d.startswith("nsbox-box."))


def its_folder_goes(tap):
    nests = ("import os\nfor n in range(3000):\n    os.mkdir('d'); os.chdir('d')\n",
             "import os\nos.makedirs('a/b'); open('a/b/f', 'w'); os.symlink('/etc', 'a/l')\n"
             "os.mkdir('locked', 0); os.mkdir('x'); os.mkfifo('x/p')\n")
    for script in nests:
        ran = box([], PYTHON, "-c", script)
        tap.equal(ran["exit_code"], 0, "a hostile tree was made", ran)
        tap.equal(folders(), [], "and is gone with the box")
    proc = subprocess.Popen([NSBOX, "run", *WALLS, "--", "sh", "-c", "echo up; sleep 4321"], env=environ(), cwd=SCRATCH,
                            stdout=subprocess.PIPE)
    with proc:
        proc.stdout.readline()
        tap.equal(len(folders()), 1, "a box that runs has one")
        proc.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not run(["pgrep", "-f", "sleep 4321"]).text():
            break
        time.sleep(0.1)
    tap.equal(run(["pgrep", "-f", "sleep 4321"]).text(), "", "a killed launcher takes the box with it")
    left = folders()
    tap.equal(len(left), 1, "but not the folder")
    nsbox("sweep")
    tap.equal(folders(), left, "which is not swept while it may still be in the making")
    shutil.rmtree(f"/tmp/{left[0]}")


def nothing_is_left(tap):
    tap.equal(leftovers(), [], "no process is left")


if __name__ == "__main__":
    become_reaper()
    sys.exit(run_tests([
        files_of_the_host_are_out_of_reach, what_may_be_read_cannot_be_changed,
        modes_are_set_in_its_own_folder_alone, other_processes_are_out_of_reach,
        kill_all_kills_the_box_alone, sockets_lead_nowhere, nothing_is_shared_in_memory,
        folders_that_cannot_be_read_cannot_be_watched, nothing_more_can_be_gained, whatever_stays_behind_is_ended,
        its_folder_goes, nothing_is_left]))
