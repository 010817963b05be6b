# as: root user userns container noclone3
"""System calls, sockets, namespaces and foreign call conventions (E07 E15-E20 E46)."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import (  # noqa: E402
    AS, ATTACK, IN_BOX, NSBOX, REPO, attack, box, boxed_attack, parse_record, run)
from rows import BARE, ROOT, USERNS, Row, run_rows  # noqa: E402
from tap import run_tests  # noqa: E402

REFUSE = os.path.join(REPO, "build/tests/refuse")

# Calls that do not exist in a box. The arguments are wrong on purpose: without a box
# the call is reached and complains about them, so ENOSYS can only be the filter's.
ABSENT = (
    ("E18", "io_uring cannot be set up", "call io_uring_setup 0 0", "errno=EFAULT"),
    ("E18", "io_uring cannot be entered", "call io_uring_enter 999 0 0 0 0 0", "errno=EBADF"),
    ("E18", "io_uring cannot be registered", "call io_uring_register 999 0 0 0", "errno=EBADF"),
    ("E18", "libaio is not there either", "call io_setup 1 0", "errno=EFAULT"),
    ("E11", "keyctl is not there", "call keyctl 9999", "errno=EOPNOTSUPP"),
    ("E11", "add_key is not there", "call add_key 0 0 0 0 0", "errno=EFAULT"),
    ("E11", "request_key is not there", "call request_key 0 0 0 0", "errno=EFAULT"),
    ("E16", "modify_ldt is not there", "call modify_ldt 0 0 0", "ok"),
    ("E16", "remap_file_pages is not there", "call remap_file_pages 0 0 0 0 0", "errno=EINVAL"),
    ("E04", "name_to_handle_at is not there", "call name_to_handle_at -1 . . 0 0",
     "re:errno=E(BADF|FAULT|INVAL|NOENT)"),
)

# Calls that are known and refused, as an unprivileged caller expects. A kernel built
# without the call says ENOSYS in the control, which is not EPERM either.
REFUSED = (
    ("E10", "ptrace", "call ptrace 16 999999999 0 0", BARE, "errno=ESRCH"),
    ("E10", "process_vm_readv", "call process_vm_readv self 0 0 0 0 0", BARE, "ok"),
    ("E10", "process_vm_writev", "call process_vm_writev self 0 0 0 0 0", BARE, "ok"),
    ("E10", "pidfd_getfd", "call pidfd_getfd 999 0 0", BARE, "errno=EBADF"),
    ("E10", "kcmp", "call kcmp self self 0 0 0", BARE, "ok"),
    ("E10", "process_madvise", "call process_madvise 999 0 0 0 0", BARE, "errno=EBADF"),
    ("E16", "perf_event_open", "call perf_event_open . 0 -1 -1 0x1000", BARE, "errno=EINVAL"),
    ("E16", "userfaultfd", "call userfaultfd 0x1000", ROOT, "errno=EINVAL"),
    ("E16", "bpf", "call bpf 9999 . 8", ROOT, "errno=EINVAL"),
    ("E16", "vmsplice", "call vmsplice 999 0 0 0", BARE, "errno=EBADF"),
    ("E16", "move_pages", "call move_pages self 0 0 0 0 0x1000", BARE, "errno=EINVAL"),
    ("E07", "mount", "call mount 0 0 0 0 0", BARE, "errno=EFAULT"),
    ("E07", "umount2", "call umount2 0 0x1000", BARE, "errno=EINVAL"),
    ("E07", "mounting a cgroup", "mount cgroup2 /mnt -", USERNS, "re:ok|errno=EBUSY"),
    ("E07", "mounting a tmpfs", "mount tmpfs /mnt size=4k", USERNS, "ok"),
    ("E07", "mounting a proc", "mount proc /mnt -", USERNS, "re:ok|errno=EINVAL"),
    ("E07", "open_tree", "call open_tree -1 0 0", BARE, "errno=EFAULT"),
    ("E07", "move_mount", "call move_mount 999 0 999 0 0x1000000", USERNS, "errno=EINVAL"),
    ("E07", "fsopen", "call fsopen 0 0x1000", USERNS, "errno=EINVAL"),
    ("E07", "fsconfig", "call fsconfig 999 0 0 0 0", BARE, "errno=EINVAL"),
    ("E07", "fsmount", "call fsmount 999 0x1000 0", USERNS, "errno=EINVAL"),
    ("E07", "fspick", "call fspick 999 0 0x1000", USERNS, "errno=EINVAL"),
    ("E07", "mount_setattr", "call mount_setattr 999 0 0 0 0", BARE, "errno=EINVAL"),
    ("E03", "chroot", "call chroot 0", BARE, "errno=EFAULT"),
    ("E03", "pivot_root", "call pivot_root 0 0", USERNS, "errno=EFAULT"),
    ("E17", "setns", "call setns 999 0", BARE, "errno=EBADF"),
    ("E42", "fanotify_init", "call fanotify_init 0x80000000 0", BARE,
     "re:errno=E(INVAL|PERM)"),
    ("E04", "open_by_handle_at", "call open_by_handle_at 999 . 0", ROOT,
     "re:errno=E(INVAL|BADF)"),
    ("E46", "iopl", "call iopl 99", BARE, "re:errno=E(INVAL|NOSYS)"),
    ("E46", "ioperm", "call ioperm 0x100000 1 1", BARE, "re:errno=E(INVAL|NOSYS)"),
    ("E55", "the kernel log", "call syslog 9 0 0", ROOT, "ok"),
    ("E06", "sethostname", "call sethostname . 1", USERNS, "ok"),
    ("E06", "setdomainname", "call setdomainname . 1", USERNS, "ok"),
    ("E06", "settimeofday", "call settimeofday 1 0", BARE, "errno=EFAULT"),
    ("E06", "clock_settime", "call clock_settime 99 0", BARE, "errno=EINVAL"),
    ("E06", "reboot", "call reboot 0 0 0 0", ROOT, "errno=EINVAL"),
    ("E06", "swapon", "call swapon 0 0x8000000", ROOT, "errno=EINVAL"),
    ("E06", "acct", "call acct 1", ROOT, "errno=EFAULT"),
    ("E06", "kexec_load", "call kexec_load 0 99 0 0xffff", ROOT, "re:errno=E(INVAL|NOSYS)"),
    ("E06", "init_module", "call init_module 0 0 0", ROOT, "re:errno=E(FAULT|NOEXEC|NOSYS)"),
    ("E06", "finit_module", "call finit_module 999 0 0xffff", ROOT, "re:errno=E(INVAL|NOSYS)"),
)


def absent_calls_answer_enosys(tap):
    run_rows(tap, [Row(i, t, act, "errno=ENOSYS", out) for i, t, act, out in ABSENT])


def refused_calls_answer_eperm(tap):
    run_rows(tap, [Row(i, f"{t} is refused", act, "errno=EPERM", out, control)
                   for i, t, act, control, out in REFUSED])


def an_unknown_call_answers_enosys(tap):
    got, ran = boxed_attack([], "call", "9999")
    tap.equal(got, "errno=ENOSYS", "E18 a call number from the future answers ENOSYS", ran)


def no_new_namespace_of_any_kind(tap):
    kinds = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time")
    rows = []
    for kind in kinds:
        control = BARE if kind == "user" else USERNS
        rows.append(Row("E17", f"unshare of a {kind} namespace is refused", f"unshare {kind}",
                        "errno=EPERM", "ok", control))
        if kind != "time":      # 0x80 is part of clone()'s exit signal
            rows.append(Row("E17", f"clone into a new {kind} namespace is refused",
                            f"clone {kind}", "errno=EPERM", "ok", control))
        outside = "errno=ENOSYS" if AS == "noclone3" else "ok"
        rows.append(Row("E19", f"clone3 into a new {kind} namespace does not exist",
                        f"clone3 {kind}", "errno=ENOSYS", outside, control))
    run_rows(tap, rows)


def socket_families_are_an_allow_list(tap):
    # 1 unix, 2 inet, 10 inet6, 16 netlink
    outside = set(attack("families", "50").split())
    tap.ok(outside - {"1", "2", "10", "16"},
           "E16 without a box: more families than the four give a socket", outside)
    got, ran = boxed_attack([], "families", "50")
    tap.equal(got, "1 2 10 16", "E16 of families 0 to 50 only unix, inet, inet6 and netlink", ran)


def socket_rows(tap):
    run_rows(tap, [
        Row("E15", "a vsock to the hypervisor is refused", "socket 40 1 0",
            "errno=EAFNOSUPPORT", "ok"),
        Row("E15", "a vsock is refused whatever the upper half of the register says",
            "call 41 0x100000028 1 0", "errno=EAFNOSUPPORT", "ok"),
        Row("E16", "a packet socket is refused", "socket 17 3 0", "errno=EAFNOSUPPORT", "ok",
            USERNS),
        Row("E16", "the crypto family is refused", "socket 38 5 0", "errno=EAFNOSUPPORT",
            "re:ok|errno=EAFNOSUPPORT"),
        Row("E16", "netlink route is there", "socket 16 3 0", "ok", "ok"),
        Row("E16", "netlink xfrm is refused", "socket 16 3 6", "errno=EPROTONOSUPPORT",
            "re:ok|errno=EPROTONOSUPPORT"),
        Row("E17", "netlink netfilter is refused", "socket 16 3 12", "errno=EPROTONOSUPPORT",
            "ok"),
        Row("E16", "netlink kobject_uevent is refused", "socket 16 3 15",
            "errno=EPROTONOSUPPORT", "ok"),
        Row("E16", "netlink audit is refused", "socket 16 3 9", "errno=EPROTONOSUPPORT",
            "re:ok|errno=EPROTONOSUPPORT"),
        Row("E16", "a raw socket is refused", "socket 2 3 1", "errno=EPERM", "ok", USERNS),
        Row("E16", "a socketpair of another family is refused", "socketpair 40 1 0",
            "errno=EAFNOSUPPORT", "re:errno=E(OPNOTSUPP|PROTONOSUPPORT)|ok"),
        Row("E16", "a unix socketpair works", "socketpair 1 1 0", "ok", "ok"),
    ])


def named(call):
    return (f"seccomp: system call {call} is forbidden",
            [{"layer": "syscalls", "what": call, "rule": None, "allow": None, "count": None}])


def foreign_conventions_kill(tap):
    i386 = attack("int80", "20")
    if i386 == "ok":
        tap.ok(True, "E20 without a box: getpid through the i386 entry works")
        for act, what, name in ((("int80", "20"), "getpid", "getpid (i386 20)"),
                                (("int80", "102", "1"), "socketcall", "socketcall (i386 102)"),
                                (("int80", "359", "40", "1"), "socket of the vsock family",
                                 "socket (i386 359)")):
            got, ran = boxed_attack([], *act)
            tap.equal((got, ran.rc), ("[denied code=None signal=31]", 122),
                      f"E20 {what} through the i386 entry is killed, verdict denied", ran)
            tap.equal((ran["reason"], ran["denials"]), named(name), f"E20 {what} is told by its name", ran)
    else:
        tap.skip("E20 the i386 entry is killed", "IA32 emulation in this kernel")
    tap.among(attack("x32", "39"), ("ok", "errno=ENOSYS"),
              "E20 without a box: a program with an x32 call lives on")
    got, ran = boxed_attack([], "x32", "39")
    tap.equal(got, "[denied code=None signal=31]", "E20 an x32 call is killed, verdict denied", ran)
    tap.equal((ran["reason"], ran["denials"]), named("getpid (x32 39)"), "E20 it is told by its name", ran)
    for flags in (["--set", "process.subprocesses=false"], ["-p", "strict"],
                  ["--set", "syscalls.level=audit"], ["--set", "syscalls.deny=flock"]):
        got, ran = boxed_attack(flags, "x32", "39")
        tap.equal((got, ran["reason"]), ("[denied code=None signal=31]", named("getpid (x32 39)")[0]),
                  f"E20 {' '.join(flags)}: the same", ran)


def one_process_ends_the_box(tap):
    """Who makes such a call is held until all of the box is dead: it runs no further."""
    ran = box(["--ro", f"{ATTACK}:{IN_BOX}", "--timeout", "10"], "sh", "-c",
              f"{IN_BOX} x32 39 & sleep 5; echo lived on")
    tap.equal((ran["verdict"], ran["signal"], ran.rc, ran["stdout"]), ("denied", 31, 122, ""),
              "E20 a child's x32 call ends the box", ran)
    tap.within(ran.wall, 0, 3, "E20 at once", ran.wall)


def without_a_listener_it_still_dies(tap):
    """Who runs nsbox may have taken the one place for a listener: then the name is missing."""
    argv = [REFUSE, "listener", "--", NSBOX, "run", "--json", "--ro", f"{ATTACK}:{IN_BOX}"]
    ran = run([*argv, "--", IN_BOX, "call", "mount", "0", "0", "0", "0", "0"])
    tap.equal((ran.rc, b'"stdout":"errno=EPERM' in ran.out), (0, True),
              "E20 behind another listener a box works, and is as tight", ran)
    for flags in ([], ["--set", "process.subprocesses=false"]):
        ran = run([*argv, *flags, "--", IN_BOX, "x32", "39"])
        record = parse_record(ran)
        tap.equal((record["verdict"], record["signal"], ran.rc), ("denied", 31, 122),
                  f"E20 behind another listener {' '.join(flags)}: killed, verdict denied", ran)
        tap.equal((record["reason"], record["denials"]),
                  ("seccomp: died of SIGSYS, the signal for a forbidden system call", []),
                  "E20 and no name is made up", ran)


def listeners_and_personality(tap):
    # SECCOMP_SET_MODE_FILTER with FLAG_NEW_LISTENER (8) and a bad program
    run_rows(tap, [
        Row("E21", "a seccomp listener is refused", "call seccomp 1 8 0", "errno=EPERM",
            "errno=EFAULT"),
        Row("E21", "asking which personality is allowed", "personality 0xffffffff", "ok", "ok"),
        Row("E21", "READ_IMPLIES_EXEC is refused", "personality 0x0400000", "errno=EPERM", "ok"),
        Row("E21", "switching randomisation off is refused", "personality 0x0040000",
            "errno=EPERM", "ok"),
    ])


def terminal_requests(tap):
    rows = []
    for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C), ("TIOCCONS", 0x541D),
                          ("TIOCSETD", 0x5423)):
        for wide in (0, 1 << 32, 1 << 63):
            rows.append(Row("E09", f"{name} is refused, upper half {wide >> 32:#x}",
                            f"ioctl 0 {request | wide:#x}", "errno=EPERM",
                            "re:errno=E(NOTTY|INVAL|PERM|BADF|IO)" if name == "TIOCCONS"
                            else "errno=ENOTTY"))
    run_rows(tap, rows)


def device_nodes(tap):
    tmp = os.path.join(os.environ.get("NSBOX_SCRATCH", "/tmp"), "node")
    for kind, numbers in (("b", "8 0"), ("c", "1 3"), ("c", "5 1")):
        if AS in ("root", "noclone3"):
            tap.equal(attack("device", tmp, kind, *numbers.split()), "ok",
                      f"E46 without a box: root makes a node {kind} {numbers}")
            os.unlink(tmp)
        for where in ("/tmp/n", "/workspace/n", "/dev/shm/n", "/dev/n"):
            got, ran = boxed_attack([], "device", where, kind, *numbers.split())
            tap.equal(got, "errno=EPERM", f"E46 mknod {where} {kind} {numbers} is refused", ran)


if __name__ == "__main__":
    run_tests([absent_calls_answer_enosys, refused_calls_answer_eperm,
               an_unknown_call_answers_enosys, no_new_namespace_of_any_kind,
               socket_families_are_an_allow_list, socket_rows, foreign_conventions_kill,
               one_process_ends_the_box, without_a_listener_it_still_dies,
               listeners_and_personality, terminal_requests, device_nodes])
