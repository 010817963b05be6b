"""What the host looks like, so that a test can say that nothing was left behind.

The suite makes itself the reaper of its orphans (PR_SET_CHILD_SUBREAPER), so every
process that a dead launcher leaves comes to this process and is found, whatever it
calls itself; other boxes on the same host do not disturb.
"""

import ctypes
import glob
import os
import re
import time

PR_SET_CHILD_SUBREAPER = 36
TEMP_DIRS = ("/tmp", "/var/tmp", "/dev/shm", "/run")


def outside_uid():
    """The caller's uid as the user namespace around this one has it."""
    with open("/proc/self/uid_map", encoding="ascii") as f:
        for inside, outside, count in (map(int, line.split()) for line in f):
            if 0 <= os.geteuid() - inside < count:
                return outside + os.geteuid() - inside
    return os.geteuid()


# The list of boxes is meant to stay, and alone in its folder.
BOX_LISTS = {"/run/nsbox" if os.geteuid() == 0 else "", f"/tmp/nsbox-{outside_uid()}"}


def become_reaper():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def parents():
    """pid -> (parent, command, state) of every process that can be seen."""
    table = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        fields = text[text.rindex(")") + 2:].split()
        table[int(path.split("/")[2])] = (int(fields[1]), name, fields[0])
    return table


def descendants(of=None):
    """Living and dead processes below this one: [(pid, command, state)]."""
    table = parents()
    found, todo = [], [of or os.getpid()]
    while todo:
        pid = todo.pop()
        for child, (parent, name, state) in table.items():
            if parent == pid:
                found.append((child, name, state))
                todo.append(child)
    return found


def reap_orphans():
    """Collect what died after its launcher; Popen children were waited for already."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def leftovers(seconds=1.0):
    """Descendants still there after at most @seconds: [] is clean."""
    end = time.monotonic() + seconds
    while True:
        reap_orphans()
        left = descendants()
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.02)


def kill_leftovers():
    """After a failed check, so that one failure does not become twenty."""
    for pid, _, _ in descendants():
        try:
            os.kill(pid, 9)
        except OSError:
            pass
    time.sleep(0.1)
    reap_orphans()


def cgroup_folders():
    """Groups of boxes whose launcher (the number in the name) is dead. The empty parent
    that all boxes share does not count, nor do boxes of others that run meanwhile."""
    found = set()
    for root, dirs, _ in os.walk("/sys/fs/cgroup"):
        for name in dirs:
            match = re.fullmatch(r"nsbox-(\d+)-.*", name)
            if match and not os.path.exists(f"/proc/{match[1]}"):
                found.add(os.path.join(root, name))
    return found


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        return sorted(line.split(" - ")[0].split()[4] + " - " + line.split(" - ")[1].strip()
                      for line in f)


def temp_names():
    found = set()
    for folder in TEMP_DIRS:
        try:
            found.update(os.path.join(folder, n) for n in os.listdir(folder)
                         if "nsbox" in n.lower())
        except OSError:
            pass
    for folder in BOX_LISTS & found:
        found.remove(folder)
        if os.access(folder, os.R_OK):  # another caller's is none of this one's
            found.update(os.path.join(folder, n) for n in os.listdir(folder) if n != "boxes.1")
    return found


def peak_memory(pid):
    """Bytes that nsbox ever had resident. Until it is executed, its pid is a copy of this
    interpreter, and counts for nothing; so does one that is gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            if f.readline() == "Name:\tnsbox\n":
                return next((int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM")), 0)
    except OSError:
        pass
    return 0


def held_namespaces(inodes):
    """Processes that still use a namespace of a box: {"net:[4026532]"} -> paths."""
    hits = []
    for path in glob.glob("/proc/[0-9]*/ns/*"):
        try:
            if os.readlink(path) in inodes:
                hits.append(path)
        except OSError:
            pass
    return hits


class Snapshot:
    """The host before; differences() says what is new, given time to settle."""

    def __init__(self):
        reap_orphans()
        self.mounts = mounts()
        self.cgroups = cgroup_folders()
        self.temp = temp_names()

    def _now(self):
        new = []
        new += [f"process {p}" for p in leftovers(0)]
        new += [f"mount {m}" for m in mounts() if m not in self.mounts]
        new += [f"lost mount {m}" for m in self.mounts if m not in mounts()]
        new += [f"cgroup {c}" for c in cgroup_folders() - self.cgroups]
        new += [f"temp {t}" for t in temp_names() - self.temp]
        return new

    def differences(self, seconds=1.0):
        end = time.monotonic() + seconds
        while True:
            new = self._now()
            if not new or time.monotonic() > end:
                return new
            time.sleep(0.05)
