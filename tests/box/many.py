# as: root user
"""Many boxes at once, boxes next to each other, and what is left after them (A19)."""

import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, NSBOX, SCRATCH, box, environ, has_writable_binds, nsbox, run  # noqa: E402
from host import Snapshot, become_reaper, held_namespaces, leftovers  # noqa: E402
from tap import needs, run_tests  # noqa: E402

AT_ONCE = 50


def start(*args):
    return subprocess.Popen([NSBOX, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environ(), cwd=SCRATCH)


def fifty_at_once(tap):
    host = Snapshot()
    procs = [start("run", "--", "sh", "-c", f"echo {i}; sleep 1; exit {i}") for i in range(AT_ONCE)]
    wrong = []
    for i, proc in enumerate(procs):
        out, err = proc.communicate(timeout=120)
        if (proc.returncode, out) != (i, f"{i}\n".encode()):
            wrong.append((i, proc.returncode, out, err))
    tap.equal(wrong[:3], [], f"{AT_ONCE} boxes at once give each its own output and status")
    tap.equal(host.differences(2), [], f"nothing is left of the {AT_ONCE}")


def two_boxes_do_not_see_each_other(tap):
    script = ("echo mine > /tmp/mine; echo mine > /dev/shm/mine; echo mine > /workspace/mine; "
              "/usr/bin/python3 -c \"\nimport socket, time, os\n"
              "s = socket.socket(); s.bind(('127.0.0.1', 4711)); s.listen()\n"
              "a = socket.socket(socket.AF_UNIX); a.bind('\\\\0nsbox-two'); a.listen()\n"
              "print('ready', flush=True); time.sleep(60)\"")
    first = start("run", "--timeout", "50", "--", "sh", "-c", script)
    tap.equal(first.stdout.readline(), b"ready\n", "the first box listens")
    probe = ("import socket, os\n"
             "def t(family, to):\n"
             "    s = socket.socket(family)\n"
             "    try: s.connect(to); return 'connected'\n"
             "    except OSError as e: return str(e.errno)\n"
             "print(t(socket.AF_INET, ('127.0.0.1', 4711)), t(socket.AF_UNIX, '\\0nsbox-two'),\n"
             "      [os.path.exists(p) for p in ('/tmp/mine', '/dev/shm/mine', '/workspace/mine')],\n"
             "      len([p for p in os.listdir('/proc') if p.isdigit()]))\n")
    ran = box([], "/usr/bin/python3", "-c", probe)
    tap.equal(ran["stdout"].split()[:5], ["111", "111", "[False,", "False,", "False]"],
              "A19 the second sees neither its port, nor its socket, nor its files", ran)
    tap.within(int(ran["stdout"].split()[-1]), 1, 3, "A19 nor its processes", ran)
    ipc = box([], "sh", "-c", "ipcs -q 2>/dev/null | grep -c 0x; readlink /proc/self/ns/ipc")
    tap.ok(ipc["stdout"].split()[-1] != os.readlink("/proc/self/ns/ipc"), "A19 System V IPC is apart", ipc)
    tap.equal(first.poll(), None, "the first runs on")
    first.kill()
    first.communicate()
    tap.equal(leftovers(1), [], "and is gone when killed")


def every_namespace_is_its_own(tap):
    kinds = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")
    script = "; ".join(f"readlink /proc/self/ns/{k}" for k in kinds)
    one, two = (box([], "sh", "-c", script)["stdout"].split() for _ in range(2))
    tap.equal(len(one), len(kinds), "a box can read what its namespaces are", one)
    for k, a, b in zip(kinds, one, two):
        tap.ok(a != os.readlink(f"/proc/self/ns/{k}"), f"the {k} namespace is not the host's", (a, b))
    tap.equal(held_namespaces(set(one) | set(two)), [], "none of them is held afterwards")


def many_in_a_row_leave_nothing(tap):
    host = Snapshot()
    fds = len(os.listdir("/proc/self/fd"))
    count = int(os.environ.get("NSBOX_TEST_ROW", "200"))
    start_time = time.monotonic()
    wrong = [ran for ran in (nsbox("run", "--", "true") for _ in range(count)) if ran.rc or ran.err]
    tap.equal(wrong[:2], [], f"{count} boxes in a row all work")
    tap.note(f"{(time.monotonic() - start_time) / count * 1000:.1f} ms each")
    tap.equal(host.differences(1), [], "and leave nothing")
    tap.equal(len(os.listdir("/proc/self/fd")), fds, "nor a descriptor in the test")


def a_box_in_a_box_is_refused_or_works(tap):
    ran = box(["--ro", f"{NSBOX}:/nsbox"], "/nsbox", "run", "--", "echo", "inner")
    tap.ok(ran["exit_code"] == 125 and ran["stdout"] == "" and "nsbox: " in ran["stderr"],
           "nsbox in a box is told that it cannot make one: 125", ran)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def two_writers_of_one_folder(tap):
    place = os.path.join(SCRATCH, "shared")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    procs = [start("run", "--rw", f"{place}:/w", "--", "sh", "-c", f"echo {i} > /w/{i}; sleep 0.3")
             for i in range(8)]
    codes = [(p.communicate()[1], p.returncode) for p in procs]
    tap.equal(codes, [(b"", 0)] * 8, "eight boxes write one folder")
    tap.equal(sorted(os.listdir(place)), [str(i) for i in range(8)],
              "all files are there and no placeholder is left")
    tap.equal({os.stat(os.path.join(place, n)).st_uid for n in os.listdir(place)}, {os.getuid()},
              "all belong to the caller")


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def writers_that_start_at_once(tap):
    """None takes a placeholder that another is just making for somebody's folder."""
    place = os.path.join(SCRATCH, "shared3")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    for count in (8, 16):
        codes = []
        for _ in range(10):
            procs = [start("run", "--rw", f"{place}:/w", "--", "true") for _ in range(count)]
            codes += [(p.communicate()[1], p.returncode) for p in procs]
        wrong = [c for c in codes if c != (b"", 0)]
        tap.equal((len(codes), wrong[:3]), (10 * count, []),
                  f"ten times {count} boxes that start at once on one folder all run")
        tap.equal(os.listdir(place), [], f"ten times {count}: and leave nothing in it")


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def a_killed_writer_leaves_no_placeholder(tap):
    place = os.path.join(SCRATCH, "shared2")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    first = start("run", "--rw", f"{place}:/w", "--", "sh", "-c", "echo ready; sleep 60")
    tap.equal(first.stdout.readline(), b"ready\n", "the box runs")
    second = start("run", "--rw", f"{place}:/w", "--", "sh", "-c", "echo ready; cat /w/.envrc; sleep 60")
    second.stdout.readline()
    first.kill()
    first.communicate()
    time.sleep(0.5)
    ran = run([ATTACK, "create", f"{place}/mine"])
    tap.equal(ran.text(), "ok", "the folder can be used on the host meanwhile")
    os.unlink(f"{place}/mine")
    second.kill()
    second.communicate()
    end = time.monotonic() + 2
    while os.listdir(place) and time.monotonic() < end:
        time.sleep(0.05)
    tap.equal(os.listdir(place), [], "killed by SIGKILL, both leave no placeholder behind")
    tap.equal(leftovers(1), [], "nor a process")


if __name__ == "__main__":
    become_reaper()
    run_tests([fifty_at_once, two_boxes_do_not_see_each_other, every_namespace_is_its_own,
               many_in_a_row_leave_nothing, a_box_in_a_box_is_refused_or_works,
               two_writers_of_one_folder, writers_that_start_at_once,
               a_killed_writer_leaves_no_placeholder])
