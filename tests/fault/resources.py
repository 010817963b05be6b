# as: root user userns noclone3
"""The launcher runs out of something: 125 and one line, or it works; nothing is left."""

import os
import resource
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, ATTACK, NSBOX, SCRATCH, own_mounts, run  # noqa: E402
from host import Snapshot, become_reaper, kill_leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

PLACE = os.path.join(SCRATCH, "starve")
PAYLOAD = ("--ro", f"{ATTACK}:/attack", "--rw", f"{PLACE}:/w", "--", "/attack", "create", "/w/ran")


def fresh():
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)


def limited(kind, soft, hard=None):
    def apply():
        resource.setrlimit(kind, (soft, soft if hard is None else hard))
    return apply


def judge(ran):
    """None if the run was clean: it worked and says so, or it was refused in one line."""
    marked = os.path.exists(f"{PLACE}/ran")
    if ran.rc == 0 and ran.out == b"ok\n" and marked:
        return None
    if (ran.rc == 125 and not ran.out and ran.err.startswith(b"nsbox: ")
            and ran.err.count(b"\n") == 1 and not marked):
        return None
    if ran.rc == 139 and ran.err.startswith(b"nsbox: signaled") and not marked:
        return None     # the limit is the payload's too: it was told that it died of it
    return f"marked={marked} {ran}"


def starve(tap, what, kind, steps):
    """Runs under each limit; at the last step, the widest, it must work."""
    wrong, codes = [], []
    host = Snapshot()
    for step in steps:
        fresh()
        ran = run([NSBOX, "run", *PAYLOAD], preexec_fn=limited(kind, step))
        codes.append(ran.rc)
        problem = judge(ran)
        if b"No file descriptors" in ran.err and b"ulimit -n" not in ran.err:
            problem = problem or f"no remedy {ran}"
        if problem:
            wrong.append(f"{what} {step}: {problem}")
        left = host.differences(0.5) + [n for n in os.listdir(PLACE) if n != "ran"]
        if left:
            wrong.append(f"{what} {step} left {left}")
            kill_leftovers()
    tap.equal(wrong[:3], [], f"{what} from {steps[0]} to {steps[-1]}: refused in one line, or works")
    tap.equal(codes[-1], 0, f"{what} {steps[-1]} is enough", codes)
    return codes


def file_descriptors(tap):
    codes = starve(tap, "RLIMIT_NOFILE", resource.RLIMIT_NOFILE, [*range(3, 40), 64, 256])
    tap.ok(125 in codes, "with very few descriptors it is refused", codes)


def address_space(tap):
    mib = 1 << 20
    starve(tap, "RLIMIT_AS", resource.RLIMIT_AS,
           [2 * mib, 3 * mib, 4 * mib, 6 * mib, 8 * mib, 16 * mib, 64 * mib, 512 * mib])


def stack_and_data(tap):
    kib = 1 << 10
    starve(tap, "RLIMIT_STACK", resource.RLIMIT_STACK, [64 * kib, 128 * kib, 256 * kib, 8192 * kib])
    starve(tap, "RLIMIT_DATA", resource.RLIMIT_DATA, [64 * kib, 256 * kib, 1024 * kib, 65536 * kib])


def file_size(tap):
    """A memfd counts as a file: SIGXFSZ must not kill the launcher."""
    starve(tap, "RLIMIT_FSIZE", resource.RLIMIT_FSIZE, [0, 1, 4096, 1 << 16, 1 << 24])


def processes(tap):
    if AS in ("root", "noclone3"):
        tap.note("RLIMIT_NPROC does not bind root; see the run as a user")
        return
    used = sum(1 for p in os.listdir("/proc") if p.isdigit() and owner(p) == os.getuid())
    starve(tap, "RLIMIT_NPROC", resource.RLIMIT_NPROC, [1, used, used + 1, used + 2, used + 3, used + 500])


def owner(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def in_a_full_place(what, size, script):
    unshare = own_mounts()
    full = os.path.join(SCRATCH, "full")
    os.makedirs(full, exist_ok=True)
    return run([*unshare, "sh", "-c", f"mount -t tmpfs -o size={size},mode=1777 t {full} || exit 99; "
                f"head -c 10000000 /dev/zero > {full}/filler 2>/dev/null; {script.format(full=full)}"])


def full_disks(tap):
    for variable in ("TMPDIR", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "HOME"):
        fresh()
        host = Snapshot()
        ran = in_a_full_place(variable, "64k", f"export {variable}={{full}}; {NSBOX} run " + " ".join(PAYLOAD)
                              + "; rc=$?; find {full} ! -name filler -type f >&2; exit $rc")
        tap.equal(judge(ran), None, f"a full {variable}: refused in one line, or works")
        tap.equal(host.differences(0.5), [], f"a full {variable}: nothing is left")
    fresh()
    ran = in_a_full_place("rw", "64k", f"{NSBOX} run --rw {{full}}:/w -- sh -c 'echo x > /w/x; echo $?'; "
                          "rc=$?; ls -A {full} | tr '\\n' ' '; exit $rc")
    tap.ok(b"filler" in ran.out and b".git" not in ran.out and b".envrc" not in ran.out,
           "a full --rw folder: no placeholder is left", ran)
    tap.ok(ran.rc in (0, 125), "a full --rw folder: it runs and says ENOSPC, or is refused", ran)


def a_read_only_disk(tap):
    fresh()
    unshare = own_mounts()
    ran = run([*unshare, "sh", "-c", f"mount --bind {PLACE} {PLACE} && mount -o remount,bind,ro {PLACE} && "
               f"exec {NSBOX} run --rw {PLACE}:/w -- sh -c 'echo x > /w/x'"])
    tap.ok(ran.rc == 125 and ran.err.count(b"\n") == 1 or (ran.rc != 0 and b"Read-only" in ran.err),
           "--rw of a read-only mount is refused or stays read-only", ran)
    tap.equal(os.listdir(PLACE), [], "and nothing is left in it")


if __name__ == "__main__":
    become_reaper()
    run_tests([file_descriptors, address_space, stack_and_data, file_size, processes, full_disks,
               a_read_only_disk])
