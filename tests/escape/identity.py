# as: root user userns container noclone3
"""Who the payload is, and what it learns of the host (E06 E11 E44 E45 E55 A7)."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import (AS, ATTACK, IN_BOX, NSBOX, SCRATCH, attack, box, boxed_attack, environ,  # noqa: E402
                 run)
from host import become_reaper, leftovers, parents  # noqa: E402
from tap import run_tests  # noqa: E402

# What a write to a kernel setting may answer: there is no such file, or it is read-only.
REFUSED = ("errno=ENOENT", "errno=EROFS", "errno=EACCES", "errno=EPERM")
SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
            "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory",
            "/proc/sys/user/max_user_namespaces", "/proc/sys/net/ipv4/ip_forward",
            "/proc/sysrq-trigger", "/proc/sys/fs/binfmt_misc/register",
            "/sys/kernel/uevent_helper")


def status_of(text):
    return dict(line.split(":\t", 1) for line in text.split("\n") if ":\t" in line)


def kernel_settings_cannot_be_written(tap):
    for path in SETTINGS:
        before = run(["cat", path]).out if os.path.isfile(path) and "trigger" not in path else b""
        if AS in ("root", "noclone3") and before and "/user/" not in path:
            # opened only: writing, even the same value, is left to the box. Files of
            # /proc/sys/user want a capability on top of the mode.
            tap.equal(attack("open-write", path), "ok", f"E06 without a box: root opens {path}")
        got, ran = boxed_attack([], "open-write", path)
        tap.among(got, REFUSED, f"E06 {path} cannot be opened for writing", ran)
        if before:
            got, ran = boxed_attack([], "rewrite", path)
            tap.among(got, REFUSED, f"E06 {path} cannot be written", ran)
            tap.equal(run(["cat", path]).out, before, f"E06 {path} has its value of before")


def no_setting_is_writable_at_all(tap):
    ran = box([], "sh", "-c", "find /proc/sys /sys -writable -type f 2>/dev/null | head -n 5")
    tap.equal(ran["stdout"].strip(), "", "E06 nothing below /proc/sys or /sys is writable", ran)


def host_wide_proc_is_unreachable(tap):
    for path in ("/proc/kcore", "/proc/kallsyms", "/proc/kmsg", "/proc/keys", "/proc/timer_list",
                 "/proc/sched_debug", "/proc/bus/pci/devices", "/proc/irq/default_smp_affinity",
                 "/proc/sysrq-trigger", "/proc/scsi/scsi", "/proc/acpi"):
        got, ran = boxed_attack([], "read", path)
        tap.ok(got in REFUSED or got in ("", "errno=EISDIR"),
               f"E55 {path} tells nothing", f"{got}\n{ran}")


def the_payload_is_nobody(tap):
    ran = box([], "sh", "-c", "id -u; id -g; id -G")
    tap.equal(ran["stdout"].split(), ["1000", "1000", "1000"],
              "E44 uid, gid and the only group are 1000", ran)
    ran = box([], "cat", "/proc/self/status")
    status = status_of(ran["stdout"])
    for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        tap.equal(status.get(field), "0" * 16, f"E45 {field} is empty", ran)
    tap.equal(status.get("NoNewPrivs"), "1", "E45 no_new_privs is set", ran)
    tap.equal(status.get("Seccomp"), "2", "E18 a seccomp filter is loaded", ran)
    tap.equal(status.get("Uid"), "\t".join(["1000"] * 4), "E44 all four uids are 1000", ran)
    tap.equal(status.get("Gid"), "\t".join(["1000"] * 4), "E44 all four gids are 1000", ran)
    tap.equal(status.get("Groups", "?").strip(), "1000" if status.get("Groups", "").strip() else "",
              "E44 there is no supplementary group", ran)
    setgroups = box([], "cat", "/proc/self/setgroups")
    tap.equal(setgroups["stdout"].strip(), "deny", "E44 setgroups is denied", setgroups)


def find_payload(launcher, name):
    """The process called @name below the launcher, or None."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        table = parents()
        for pid, (parent, comm, _) in table.items():
            up = parent
            while comm == name and up and up != launcher:
                up = table.get(up, (0, "", ""))[0]
            if comm == name and up == launcher:
                return pid
        time.sleep(0.02)
    return None


def seen_from_the_host(tap):
    proc = subprocess.Popen([NSBOX, "run", "--ro", f"{ATTACK}:/hold", "--", "/hold", "hold", "20"],
                            env=environ(), cwd=SCRATCH, stdout=subprocess.DEVNULL)
    pid = find_payload(proc.pid, "hold")
    if tap.ok(pid, "E44 the payload can be found from the host"):
        with open(f"/proc/{pid}/status", encoding="utf-8") as f:
            status = status_of(f.read())
        uids = set(status["Uid"].split())
        if AS in ("root", "noclone3"):
            tap.ok("0" not in uids, "E44 started by root, its uid on the host is not 0", uids)
            tap.ok("0" not in set(status["Gid"].split()),
                   "E44 started by root, its gid on the host is not 0", status["Gid"])
            tap.ok(int(status["Uid"].split()[0]) >= 65536,
                   "E44 started by root, its uid on the host is of a range of its own", uids)
        elif AS == "container":
            tap.ok("0" not in uids, "E44 started by a container's root, its uid is not that of root", uids)
        else:
            tap.equal(uids, {str(os.getuid())}, "E44 its uid on the host is the caller's", status)
        extra = set(status["Groups"].split()) - set(status["Gid"].split())
        inherited = set(map(str, os.getgroups()))
        tap.ok(AS not in ("root", "noclone3") or not extra,
               "E44 started by root, it has none of root's groups", (extra, inherited))
        fields = status["NSpid"].split()
        tap.ok(len(fields) >= 2 and fields[-1] != "1", "E10 the payload is not PID 1", fields)
    proc.kill()
    proc.wait()
    tap.equal(leftovers(1), [], "E22 killing the launcher leaves no process")


def two_boxes_of_root_have_two_uids(tap):
    if AS not in ("root", "noclone3"):
        tap.note("E44: uids of their own need root; see the run as root")
        return
    procs = [subprocess.Popen([NSBOX, "run", "--ro", f"{ATTACK}:/hold", "--", "/hold", "hold",
                               "20"], env=environ(), cwd=SCRATCH, stdout=subprocess.DEVNULL)
             for _ in range(2)]
    uids = []
    for proc in procs:
        pid = find_payload(proc.pid, "hold")
        if pid:
            with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                uids.append(status_of(f.read())["Uid"].split()[0])
    tap.equal(len(set(uids)), 2, "E44 two boxes of root run as two different uids", uids)
    for proc in procs:
        proc.kill()
        proc.wait()
    tap.equal(leftovers(1), [], "E44 both are gone")


def keyrings_are_separate(tap):
    name = f"nsbox-test-{os.getpid()}"
    added = attack("add-key", name)
    tap.among(added, ("ok", "errno=ENOSYS"), "E11 without a box: a key can be added")
    if added == "ok":
        tap.equal(attack("find-key", name), "ok", "E11 without a box: another program finds it")
    got, ran = boxed_attack([], "find-key", name)
    tap.equal(got, "errno=ENOSYS", "E11 in a box there are no keyring calls", ran)
    ran = box([], "sh", "-c", "cat /proc/keys 2>/dev/null; true")
    tap.ok(name not in ran["stdout"], "E11 /proc/keys does not show it", ran)


def environment_tells_nothing(tap):
    secret = {"SECRET": "hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2", "LD_PRELOAD": "",
              "SSH_AUTH_SOCK": "/hunter2", "BASH_ENV": "/hunter2", "PYTHONPATH": "/hunter2",
              "GITHUB_TOKEN": "hunter2", "http_proxy": "http://hunter2.test"}
    tap.ok("hunter2" in run(["env"], env=secret).text(), "A7 without a box: the secrets are seen")
    ran = box([], "sh", "-c", "env; cat /proc/self/environ /proc/1/environ 2>/dev/null; true",
              env=secret)
    tap.ok("hunter2" not in ran["stdout"], "A7 no variable of the caller is in the box", ran)
    ran = box(["-e", "SECRET"], "printenv", "SECRET", env=secret)
    tap.equal(ran["stdout"], "hunter2\n", "A7 -e NAME passes one on", ran)
    ran = box(["-e", "SECRET=other"], "printenv", "SECRET", env=secret)
    tap.equal(ran["stdout"], "other\n", "A7 -e NAME=VALUE sets one", ran)
    ran = box(["-e", "NOT_SET_AT_ALL"], "sh", "-c", "echo ${NOT_SET_AT_ALL-unset}", env=secret)
    tap.ok(ran.rc == 125 or ran["stdout"] == "unset\n", "A7 -e of an unset name invents nothing", ran)


def the_host_is_not_named(tap):
    with open("/proc/sys/kernel/hostname", encoding="utf-8") as f:
        name = f.read().strip()
    ran = box([], "sh", "-c", "hostname; uname -n; cat /etc/hostname /proc/sys/kernel/hostname "
              "2>/dev/null; true")
    words = set(ran["stdout"].split())
    tap.ok("nsbox" in words and words <= {"nsbox"} and (name == "nsbox" or name not in words),
           "E55 the host name is nsbox everywhere", ran)


def secrets_of_the_host_are_not_there(tap):
    for path in ("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/sudoers",
                 "/boot", "/etc/machine-id", "/etc/krb5.keytab", "/var/spool"):
        got, ran = boxed_attack([], "stat", path)
        tap.equal(got, "errno=ENOENT", f"E55 {path} does not exist", ran)
    for path in ("/root", "/home", "/var/log", "/run", "/srv", "/mnt", "/media",
                 "/var/lib"):
        ran = box([], "sh", "-c", f"ls -A {path} 2>/dev/null; true")
        tap.equal(ran["stdout"], "", f"E55 {path} has nothing in it", ran)
    ran = box([], "sh", "-c", "cut -d: -f1,3 /etc/passwd | tr '\\n' ' '")
    with open("/etc/passwd", encoding="utf-8") as f:
        real = {line.split(":")[0] for line in f if int(line.split(":")[2]) >= 1000} - {"nobody"}
    shown = {pair.split(":")[0] for pair in ran["stdout"].split()}
    tap.ok(shown and not shown & real, "E55 /etc/passwd names no real user", (shown & real, str(ran)))


def paths_of_the_host_are_not_in_mountinfo(tap):
    ran = box([], "cat", "/proc/self/mountinfo")
    home = os.path.expanduser("~")
    roots = [line.split()[3] for line in ran["stdout"].strip().split("\n") if line]
    tap.equal([r for r in roots if home != "/" and r.startswith(home)], [],
              "E55 mountinfo shows no path of the caller's home", ran)


def a_setuid_program_gains_nothing(tap):
    if AS != "root":
        tap.note("E45: a set-user-id copy needs root; see the run as root")
        return
    path = os.path.join(SCRATCH, "suid-id")
    run(["cp", "/usr/bin/id", path])
    os.chown(path, 0, 0)
    os.chmod(path, 0o4755)
    outside = run(["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", path, "-u"])
    tap.equal(outside.text(), "0", "E45 without a box: the set-user-id copy runs as root")
    ran = box(["--ro", f"{path}:/suid-id"], "/suid-id", "-u")
    tap.equal(ran["stdout"].strip(), "1000", "E45 in a box it stays uid 1000", ran)
    os.unlink(path)


def writing_the_id_maps_again(tap):
    for path in ("/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups"):
        got, ran = boxed_attack([], "write", path, "0")
        tap.among(got, ("errno=EPERM", "errno=EACCES", "errno=EROFS", "errno=EINVAL"),
                  f"E44 {path} cannot be written again", ran)


def process_hygiene(tap):
    got, ran = boxed_attack([], "signals")
    tap.equal(got, "", "E23 no signal is ignored or blocked at start", ran)
    ran = box(["--ro", f"{ATTACK}:{IN_BOX}"], IN_BOX, "signals",
              preexec_fn=lambda: __import__("signal").signal(1, __import__("signal").SIG_IGN))
    tap.equal(ran["stdout"], "\n", "E23 a signal that the caller ignores is not ignored", ran)
    ran = box(["--timeout", "5"], "sh", "-c", "(exit 3); exit $?",
              preexec_fn=lambda: __import__("signal").signal(17, __import__("signal").SIG_IGN))
    tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 3),
              "E23 a caller that ignores SIGCHLD hears of the end all the same", ran)
    got, ran = boxed_attack([], "limit", "4")
    # At 0 the kernel still starts the handler of a host that pipes cores: core(5).
    tap.equal(got, "1 1", "E46 core dumps are off, soft and hard, piped ones too", ran)
    tap.equal(attack("set-limit", "4", "0"), "0", "E46 without a box: the limit can be 0")
    for value in ("0", "1000000"):
        got, ran = boxed_attack([], "set-limit", "4", value)
        tap.equal(got, "1", f"E46 and stay so when a program asks for {value}", ran)
    got, ran = boxed_attack([], "set-limit", "7", "64")
    tap.equal(got, "64", "E46 other limits can be lowered", ran)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([kernel_settings_cannot_be_written, no_setting_is_writable_at_all,
               host_wide_proc_is_unreachable, the_payload_is_nobody, seen_from_the_host,
               two_boxes_of_root_have_two_uids, keyrings_are_separate, environment_tells_nothing,
               the_host_is_not_named, secrets_of_the_host_are_not_there,
               paths_of_the_host_are_not_in_mountinfo, a_setuid_program_gains_nothing,
               writing_the_id_maps_again, process_hygiene, nothing_survives_this_suite])
