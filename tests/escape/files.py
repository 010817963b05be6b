# as: root user userns container
"""Paths, descriptors, binds, mount flags and mode bits (E01-E05 E08 E13 E37-E39 E54)."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import (AS, ATTACK, IN_BOX, NSBOX, SCRATCH, attack, attack_in_new_userns, box,  # noqa: E402
                 boxed_attack, environ, has_writable_binds, nsbox, own_mounts, rounds, run)
from host import become_reaper, leftovers  # noqa: E402
from rows import matches  # noqa: E402
from tap import needs, run_tests  # noqa: E402


def folder(name, files=None):
    """A fresh folder of the caller's with these files."""
    path = os.path.join(SCRATCH, "files", name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    for file, text in (files or {}).items():
        os.makedirs(os.path.dirname(os.path.join(path, file)), exist_ok=True)
        with open(os.path.join(path, file), "w", encoding="utf-8") as f:
            f.write(text)
    return path


def tree(path):
    """Every name below, with its kind and text: to see that nothing changed."""
    found = {}
    for root, dirs, files in os.walk(path):
        for name in dirs + files:
            full = os.path.join(root, name)
            rel = os.path.relpath(full, path)
            if os.path.islink(full):
                found[rel] = "-> " + os.readlink(full)
            elif os.path.isdir(full):
                found[rel] = "folder"
            else:
                with open(full, "rb") as f:
                    found[rel] = f.read()
    return found


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


# --- E01 E02 E03 -------------------------------------------------------------

def the_launcher_cannot_be_overwritten(tap):
    before = digest(NSBOX)
    copy = shutil.copy(ATTACK, os.path.join(folder("exe"), "copy"))
    tap.equal(attack("open-trunc", copy), "ok", "E01 without a box: a program can be emptied")
    for path in ("/proc/1/exe", "/proc/self/exe", IN_BOX, "/proc/1/map_files"):
        got, ran = boxed_attack([], "open-trunc", path)
        tap.among(got, ("errno=EACCES", "errno=ETXTBSY", "errno=EROFS", "errno=ENOENT",
                        "errno=EISDIR"), f"E01 {path} cannot be opened for writing", ran)
    tap.equal(digest(NSBOX), before, "E01 the nsbox program is the same afterwards")


def inherited_descriptors_are_closed(tap):
    secret = os.path.join(folder("fds", {"secret": "top secret\n"}), "secret")
    for number in (7, 63, 1000):
        fd = os.open(secret, os.O_RDONLY)
        os.dup2(fd, number, inheritable=True)
        tap.equal(attack("read-fd", str(number), pass_fds=(number,)), "top secret",
                  f"E02 without a box: descriptor {number} is inherited")
        got, ran = boxed_attack([], "read-fd", str(number), pass_fds=(number,))
        tap.equal(got, "errno=EBADF", f"E02 descriptor {number} is closed in the box", ran)
        os.close(number)
        if fd != number:
            os.close(fd)
    got, ran = boxed_attack([], "probe-fds")
    tap.equal(got, "0 1 2", "E02 the payload starts with descriptors 0, 1 and 2 only", ran)


def no_descriptor_leads_to_a_folder_of_the_host(tap):
    ran = box([], "sh", "-c", "for f in 0 1 2; do readlink /proc/self/fd/$f; done")
    bad = [line for line in ran["stdout"].split("\n")
           if line and not line.startswith(("pipe:", "/dev/null", "/dev/pts", "socket:"))]
    tap.equal(bad, [], "E02 standard descriptors are pipes or the box's own devices", ran)


def the_working_folder_does_not_lead_out(tap):
    home = folder("cwd/deep/er", {"secret": "top secret\n"})
    up = "../" * 12 + home.lstrip("/") + "/secret"
    tap.equal(attack("read", up, cwd=home), "top secret", "E03 without a box: .. leads anywhere")
    got, ran = boxed_attack([], "read", up, cwd=home)
    tap.equal(got, "errno=ENOENT", "E03 .. from the working folder stays in the box", ran)
    got, ran = boxed_attack([], "chdir-read", "/proc/self/cwd/" + "../" * 12,
                            home.lstrip("/") + "/secret", cwd=home)
    tap.equal(got, "errno=ENOENT", "E03 /proc/self/cwd/.. stays in the box", ran)
    ran = box([], "sh", "-c", "cd /proc/self/cwd/../../../..; ls -id . / | sed 's/ .*//' | uniq",
              cwd=home)
    tap.equal(len(ran["stdout"].split()), 1, "E03 far enough up is the box's root", ran)


# --- E04 E05: symlinks in places where the launcher mounts -------------------

@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def a_symlink_in_a_bind_target_does_not_lead_out(tap):
    place = folder("target", {"file": "in\n", "tree/x": "x\n", "outside/keep": "keep\n"})
    os.symlink(f"{place}/outside", f"{place}/tree/link")
    os.symlink("/proc/sys/kernel/core_pattern", f"{place}/tree/dev")
    before = tree(place)
    ran = nsbox("run", "--rw", f"{place}/tree:/t", "--ro", f"{place}/file:/t/link/new", "--",
                "cat", "/t/link/new")
    tap.among((ran.rc, ran.text()), ((125, ""), (0, "in")),
              "E04 a target behind a symlink is refused or stays in the box", ran)
    tap.equal(tree(place), before, "E04 nothing was created on the host through the symlink")
    ran = nsbox("run", "--rw", f"{place}/tree:/t", "--ro", f"{place}/file:/t/dev", "--",
                "cat", "/t/dev")
    tap.among((ran.rc, ran.text()), ((125, ""), (0, "in")),
              "E04 a target that is a symlink to a sysctl is refused or stays in the box", ran)
    tap.equal(tree(place), before, "E04 the folder of the host is as before")


SWAP = """
import ctypes, os, sys
spot, other = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
os.symlink(other, spot + ".link")
while True:
    # RENAME_EXCHANGE: at every moment there is one or the other
    if libc.syscall(316, -100, spot.encode(), -100, (spot + ".link").encode(), 2):
        sys.exit(os.strerror(ctypes.get_errno()))
"""


def swapping(spot, other):
    """A process that swaps @spot between a folder and a symlink to @other."""
    return subprocess.Popen([sys.executable, "-c", SWAP, spot, other],
                            stdout=subprocess.DEVNULL, env=environ())


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def a_swapped_target_never_leads_out(tap):
    place = folder("race", {"file": "in\n", "w/sub/x": "", "outside/keep": "keep\n"})
    outside = tree(place + "/outside")
    swap = swapping(f"{place}/w/sub", f"{place}/outside")
    strange, started = [], 0
    for _ in range(rounds(500)):
        ran = nsbox("run", "--rw", f"{place}/w:/w", "--ro", f"{place}/file:/w/sub/x", "--",
                    "cat", "/w/sub/x")
        started += ran.rc == 0
        if ran.rc not in (0, 1, 125) or (ran.rc == 0 and ran.text() not in ("in", "")):
            strange.append(str(ran))
    tap.equal(swap.poll(), None, "E05 the swapping went on all the time")
    swap.kill()
    swap.wait()
    tap.equal(strange[:3], [], f"E05 {rounds(500)} starts onto a swapped target ({started} ran): in or refused")
    tap.equal(tree(place + "/outside"), outside, "E05 the folder outside never changed")


def a_swapped_source_is_what_was_checked(tap):
    """--rw of a folder of somebody else's is refused; a swap must not get round that."""
    if AS != "user":
        tap.note("E05: a folder that is somebody else's needs an ordinary user; see that run")
        return
    place = folder("source", {"sub/mine": "mine\n"})
    swap = swapping(f"{place}/sub", "/etc")
    hits, counts = [], {}
    for _ in range(rounds(500)):
        ran = nsbox("run", "--rw", f"{place}/sub:/w", "--", "ls", "/w")
        counts[ran.rc] = counts.get(ran.rc, 0) + 1
        # covers of protected names may show next to it
        if ran.rc not in (0, 125) or (ran.rc == 0 and not {"mine"} <= set(ran.text().split()) <=
                                      {"mine", "lefthook.yml"}):
            hits.append(str(ran))
    tap.equal(swap.poll(), None, "E05 the swapping went on all the time")
    swap.kill()
    swap.wait()
    tap.ok(counts.get(0, 0) > 0, "E05 some of the starts found the folder", counts)
    tap.equal(hits[:3], [], f"E05 {rounds(500)} starts from a swapped source ({counts}): mine or refused")


# --- E08 E13 -----------------------------------------------------------------

def no_cgroup_can_be_written(tap):
    ran = box([], "sh", "-c", "find / -xdev -name 'cgroup.*' -o -name tasks -o -name "
              "release_agent -o -name notify_on_release 2>/dev/null | grep -v '^/proc/'; "
              "grep -c cgroup /proc/self/mounts; ls /sys/fs/cgroup 2>/dev/null | wc -l")
    tap.equal(ran["stdout"].split(), ["0", "0"], "E08 no cgroup is mounted or can be found", ran)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def unix_sockets_in_binds(tap):
    place = folder("socket", {"a": "a\n"})
    server = socket.socket(socket.AF_UNIX)
    server.bind(place + "/s")
    server.listen(8)
    tap.equal(attack("connect", place + "/s"), "ok", "E13 without a box: the socket answers")
    for flag in ("--ro", "--rw"):
        ran = nsbox("run", flag, f"{place}/s:/s", "--", "true")
        tap.equal((ran.rc, ran.out), (125, b""), f"E13 {flag} of a socket is refused", ran)
        tap.ok(b"socket" in ran.err, f"E13 {flag} of a socket says that it is one", ran)
        ran = nsbox("run", "--ro", f"{ATTACK}:{IN_BOX}", flag, f"{place}:/p", "--", IN_BOX,
                    "connect", "/p/s")
        tap.ok(ran.rc == 125 or ran.text() in
               ("errno=ENOENT", "errno=EACCES", "errno=EPERM", "errno=ECONNREFUSED"),
               f"E13 a socket inside a {flag} folder cannot be connected to", ran)
    server.close()


def the_usual_sockets_are_not_there(tap):
    ran = box([], "sh", "-c", "find / -xdev -type s 2>/dev/null; find /run/ /var/run/ -mindepth 1")
    tap.equal(ran["stdout"].strip(), "", "E13 no socket file and nothing of /run is visible", ran)


# --- E37: files that the host would run later ---------------------------------

HOST_RUNS = (".git/hooks/pre-commit", ".git/config", ".vscode/tasks.json", ".mcp.json",
             ".claude/settings.json", ".envrc", ".husky/pre-commit", ".npmrc")


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def absent_names_cannot_be_made(tap):
    for name in HOST_RUNS:
        script = f"mkdir -p $(dirname {{p}}/{name}) && echo evil > {{p}}/{name}"
        place = folder("protect")
        tap.equal(run(["sh", "-c", script.format(p=place)]).rc, 0, f"E37 without a box: {name} can be made")
        place = folder("protect")
        ran = box(["--rw", f"{place}:/w"], "sh", "-c", script.format(p="/w"))
        tap.ok(ran["verdict"] == "exited" and ran["exit_code"] != 0,
               f"E37 {name} cannot be made in a --rw folder", ran)
        tap.equal(tree(place), {}, f"E37 after the run nothing is left of {name}")
    # a name that is missing is covered by a folder, whatever it stands for: git passes over an
    # empty one, and nothing that the host would run can come of it
    for act, want in (("open-trunc /w/.envrc", "errno=EISDIR"), ("open-trunc /w/.mcp.json", "errno=EISDIR"),
                      ("create /w/.envrc/x", "errno=EROFS"),
                      ("remove /w/.envrc", "errno=EBUSY"), ("rename /w/.envrc /w/x", "errno=EBUSY"),
                      ("folder /w/.git/hooks", "errno=EROFS"), ("create /w/.git/config", "errno=EROFS"),
                      ("rename /w/.git /w/x", "errno=EBUSY"), ("folder /w/.vscode", "errno=EEXIST"),
                      ("create /w/.vscode/tasks.json", "errno=EROFS")):
        place = folder("protect")
        got, ran = boxed_attack(["--rw", f"{place}:/w"], *act.split())
        tap.ok(matches(got, want), f"E37 absent on the host, '{act}' answers {want}", f"{got}\n{ran}")
        tap.equal(tree(place), {}, f"E37 '{act}' leaves nothing on the host")


PRESENT = {".git/config": "[core]\n", ".git/hooks/x": "x\n", ".envrc": "old\n", "code": "old\n"}
CHANGES = (
    (".git/config cannot be written", "open-trunc {p}/.git/config", "errno=EROFS"),
    (".envrc cannot be written", "open-trunc {p}/.envrc", "errno=EROFS"),
    (".envrc cannot be removed", "remove {p}/.envrc", "errno=EBUSY"),
    (".envrc cannot be renamed away", "rename {p}/.envrc {p}/z", "errno=EBUSY"),
    ("nothing can be renamed onto .envrc", "rename {p}/code {p}/.envrc", "errno=EBUSY"),
    ("a hook cannot be made", "create {p}/.git/hooks/pre-commit", "errno=EROFS"),
    ("a hook cannot be removed", "remove {p}/.git/hooks/x", "errno=EROFS"),
)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def present_names_cannot_be_changed(tap):
    for title, act, want in CHANGES:
        place = folder("protect2", PRESENT)
        tap.equal(attack(*act.format(p=place).split()), "ok",
                  f"E37 without a box: '{act.format(p='.')}' works")
        place = folder("protect2", PRESENT)
        before = tree(place)
        got, ran = boxed_attack(["--rw", f"{place}:/w"], *act.format(p="/w").split())
        tap.equal(got, want, f"E37 {title}", ran)
        tap.equal(tree(place), before, f"E37 {title}: the folder is as before")


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def protected_files_can_still_be_read(tap):
    """A repository with umask 077 must work: protected is not hidden."""
    place = folder("protect4", {".git/config": "[core]\n", ".git/hooks/x": "hook\n", "plain": "plain\n"})
    for name in (".git/config", ".git/hooks/x", "plain"):
        os.chmod(f"{place}/{name}", 0o600)
    for name in (".git/config", ".git/hooks/x"):
        got, ran = boxed_attack(["--rw", f"{place}:/w"], "open-write", f"/w/{name}")
        tap.equal(got, "errno=EROFS", f"E37 {name} of mode 0600 is read-only, not forbidden", ran)
    for name, text in ((".git/config", "[core]"), (".git/hooks/x", "hook"), ("plain", "plain")):
        got, ran = boxed_attack(["--rw", f"{place}:/w"], "read", f"/w/{name}")
        tap.equal(got, text, f"E37 {name} of mode 0600 can be read in the box", ran)


def names_of_the_home_are_protected_where_a_folder_holds_them(tap):
    """Only there: a project that is given --rw may make a .cache of its own."""
    home = folder("home", {".bashrc": "old\n", "project/code": "x\n", ".cache/nsbox/policy/00": "x\n"})
    env = {"HOME": home, "XDG_CACHE_HOME": ""}
    evil = "mkdir -p {0}/.cache/nsbox/policy && echo evil > {0}/.cache/nsbox/policy/00 && echo evil > {0}/.bashrc"
    ran = box(["--rw", f"{home}/project:/w"], "sh", "-c", evil.format("/w") + "; ls -A /w", env=env)
    tap.equal((ran["exit_code"], sorted(os.listdir(f"{home}/project"))), (0, [".bashrc", ".cache", "code"]),
              "E37 control: in a project .cache and .bashrc are names like others", ran)
    tap.ok(".ssh" not in ran["stdout"].split(), "E37 and no placeholder of the home is in it", ran)
    for flag, act in ((f"{home}:/w", "open-trunc /w/.bashrc"), (f"{home}:/w", "create /w/.cache/nsbox/policy/01"),
                      (f"{home}/.cache:/w", "open-trunc /w/nsbox/policy/00"), (f"{home}/.cache:/w", "create /w/nsbox/y")):
        got, ran = boxed_attack(["--rw", flag], *act.split(), env=env)
        tap.equal(got, "errno=EROFS", f"E37 --rw {flag.replace(home, '~')}: '{act}' answers EROFS", ran)
    got, ran = boxed_attack(["--rw", f"{home}/.cache:/w"], "rename", "/w/nsbox", "/w/away", env=env)
    tap.equal(got, "errno=EBUSY", "E37 the cache of nsbox cannot be moved away", ran)
    got, ran = boxed_attack(["--rw", f"{home}/.cache:/w"], "create", "/w/other", env=env)
    tap.equal(got, "ok", "E37 control: the rest of .cache can be written", ran)
    for inner in (".cache/nsbox", ".cache/nsbox/policy", ".bashrc"):
        ran = nsbox("run", "--rw", f"{home}/{inner}:/w", "--", "true", env=env)
        tap.ok(ran.rc == 125 and b"fs.protect_home" in ran.err and not ran.out,
               f"E37 --rw ~/{inner} is refused with the reason", ran)
    moved = folder("moved")
    got, ran = boxed_attack(["--rw", f"{moved}:/w"], "create", "/w/nsbox/x", env={**env, "XDG_CACHE_HOME": moved})
    tap.equal(got, "errno=EROFS", "E37 a cache that XDG_CACHE_HOME moved is protected there", ran)


def binds_inside_a_writable_folder_keep_their_meaning(tap):
    """A folder on the way to a protected name is bound over itself: it must not cover a --ro in it."""
    place = folder("inner", {".git/hooks/x": "x\n", ".git/objects/o": "o\n", "code": "x\n"})
    flags = ["--rw", f"{place}:/w", "--ro", f"{place}/.git/objects:/w/.git/objects"]
    for act, want in (("create /w/.git/new", "ok"), ("open-trunc /w/.git/objects/o", "errno=EROFS"),
                      ("open-trunc /w/.git/hooks/x", "errno=EROFS")):
        got, ran = boxed_attack(flags, *act.split())
        tap.equal(got, want, f"E37 with --ro inside --rw, '{act}' answers {want}", ran)
    flags = ["--rw", f"{place}:/w", "--rw", f"{place}/.git:/w/.git"]
    for act, want in (("create /w/.git/new2", "ok"), ("open-trunc /w/.git/hooks/x", "errno=EROFS")):
        got, ran = boxed_attack(flags, *act.split())
        tap.equal(got, want, f"E37 with a part of --rw bound again, '{act}' answers {want}", ran)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def the_parent_of_protected_names_cannot_be_swapped(tap):
    """Renaming .git takes its mount points along; a new .git would be unprotected."""
    script = ("mv /w/.git /w/.moved; mkdir -p /w/.git/hooks; "
              "echo evil > /w/.git/hooks/pre-commit; echo evil > /w/.git/config; true")
    for files in ({}, {".git/config": "[core]\n", ".git/hooks/x": "x\n"}):
        what = "present" if files else "absent"
        place = folder("protect3", files)
        before = tree(place)
        ran = box(["--rw", f"{place}:/w"], "sh", "-c", script)
        tap.equal([n for n, text in tree(place).items() if text == b"evil\n"], [],
                  f"E37 moving an {what} .git away plants nothing for the host to run", ran)
        tap.equal(tree(place), before, f"E37 the folder with an {what} .git is as before", ran)


# --- E38 E39 E54 ---------------------------------------------------------------

def other_spellings_do_not_reach_an_ungranted_file(tap):
    place = folder("spell", {"secret": "top secret\n"})
    path = place + "/secret"
    tap.equal(attack("read", path), "top secret", "E38 without a box: the file can be read")
    for spelling in (path, "/" + path, path.replace("/files/", "//files/./"),
                     "/proc/self/root" + path, "/proc/1/root" + path, "/proc/1/cwd" + path,
                     "/tmp/../" + path, path + "/"):
        got, ran = boxed_attack([], "read", spelling)
        tap.ok(got in ("errno=ENOENT", "errno=EACCES", "errno=EPERM", "errno=ENOTDIR"),
               f"E38 {spelling.replace(SCRATCH, '$S')} is not reachable", f"{got}\n{ran}")
    loader = next((p for p in ("/lib64/ld-linux-x86-64.so.2",) if os.path.exists(p)), None)
    if loader:
        ran = box([], loader, "/bin/cat", path)
        tap.ok("No such file" in ran["stderr"] and "secret\n" not in ran["stdout"],
               "E38 the dynamic loader does not get round it", ran)
    else:
        tap.skip("E38 the dynamic loader does not get round it", "an x86-64 glibc loader")


def a_hidden_path_stays_hidden(tap):
    place = folder("hidden", {"open": "open\n", "sub/secret": "top secret\n"})
    flags = ["--ro", f"{place}:/p", "--set", "fs.hidden=/p/sub"]
    got, ran = boxed_attack(["--ro", f"{place}:/p"], "read", "/p/sub/secret")
    tap.equal(got, "top secret", "E38 without fs.hidden the file can be read", ran)
    got, ran = boxed_attack(flags, "read", "/p/open")
    tap.equal(got, "open", "E38 next to a hidden path the rest can be read", ran)
    for spelling in ("/p/sub/secret", "//p/sub//secret", "/proc/self/root/p/sub/secret",
                     "/p/../p/sub/secret"):
        got, ran = boxed_attack(flags, "read", spelling)
        tap.equal(got, "errno=ENOENT", f"E38 hidden: {spelling} is not there", ran)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def the_boundary_does_not_follow_the_payload(tap):
    place = folder("boundary", {"w/x": "x\n", "keep": "keep\n"})
    before = tree(place)
    for _ in range(2):
        ran = box(["--rw", f"{place}/w", "-w", f"{place}/w"], "sh", "-c",
                  "ln -s / esc; cd esc; echo y > y; cd /tmp; echo z > ../z; "
                  f"echo y > {place}/keep; rm -f {place}/w/esc; pwd")
        tap.equal(ran["working_directory"], f"{place}/w",
                  "E39 the working folder is the caller's choice", ran)
    tap.equal(tree(place), before, "E39 changing folder changes no boundary")


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def locked_mount_flags_are_carried_over(tap):
    place = folder("flags", {"m/.keep": ""})
    inner = " ".join([NSBOX, "run", "--ro", f"{ATTACK}:{IN_BOX}", "{flag}", f"{place}/m:/m", "--",
                      IN_BOX, "mount-flags", "/m"])
    unshare = own_mounts()
    for flag, want in (("--ro", "ro,nosuid,nodev,noexec"), ("--rw", "rw,nosuid,nodev,noexec")):
        # a bind: a tmpfs can be mounted with other ids only since Linux 6.3
        ran = run([*unshare, "sh", "-c", f"mount --bind {place}/m {place}/m && mount -o "
                   f"remount,bind,nosuid,nodev,noexec {place}/m && exec " + inner.format(flag=flag)])
        tap.equal(ran.text(), want, f"E54 {flag} of a noexec mount stays noexec", ran)
    got, ran = boxed_attack(["--ro", f"{place}:/p"], "mount-flags", "/p")
    tap.equal(got, "ro,nosuid,nodev,exec", "E54 a bind gets nosuid and nodev", ran)
    got, ran = boxed_attack(["--ro", f"{place}:/p"], "remount", "/p", "0")
    tap.equal(got, "errno=EPERM", "E54 a read-only bind cannot be remounted", ran)
    tap.equal(attack_in_new_userns("remount", "/proc", "0"), "ok",
              "E54 without a box: a mount of one's own can be remounted")


def every_mount_is_nosuid(tap):
    ran = box([], "cat", "/proc/self/mountinfo")
    lines = [line.split() for line in ran["stdout"].strip().split("\n")]
    tap.ok(len(lines) > 5, "E45 the list of mounts can be read", ran)
    suid = [line[4] for line in lines if "nosuid" not in line[5].split(",")]
    tap.equal(suid, [], "E45 every mount is nosuid", ran)
    dev = [line[4] for line in lines if "nodev" not in line[5].split(",")
           and not line[4].startswith("/dev/")]
    tap.equal(dev, [], "E46 every mount outside /dev is nodev", ran)


# --- set-id bits -----------------------------------------------------------------

METHODS = ("chmod", "chmod-high", "fchmod", "fchmodat", "fchmodat2", "creat", "open-mode",
           "openat-mode", "openat2-mode", "mkdir", "mkdirat", "mknod-mode", "mknodat-mode")


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def setid_bits_cannot_be_left_behind(tap):
    for method in METHODS:
        for mode in ("04755", "02755", "06755"):
            place = folder("setid")
            outside = attack(method, f"{place}/f", mode)
            if method == "fchmodat2" and outside == "errno=ENOSYS":
                tap.skip(f"E45 {method} {mode}", "fchmodat2 (Linux 6.6)")
                continue
            tap.equal(outside, "ok", f"E45 without a box: {method} {mode}")
            place = folder("setid")
            got, ran = boxed_attack(["--rw", f"{place}:/w"], method, "/w/f", mode)
            want = "errno=ENOSYS" if method == "openat2-mode" else "errno=EPERM"
            tap.equal(got, want, f"E45 {method} {mode} is refused", ran)
            bits = [n for n in os.listdir(place)
                    if os.lstat(os.path.join(place, n)).st_mode & 0o6000]
            tap.equal(bits, [], f"E45 {method} {mode} left no set-id file on the host")
    place = folder("setid")
    got, ran = boxed_attack(["--rw", f"{place}:/w"], "tmpfile-mode", "/w", "04755")
    tap.equal(got, "errno=EPERM", "E45 O_TMPFILE 04755 is refused", ran)
    got, ran = boxed_attack(["--rw", f"{place}:/w"], "setcap", "/w/f")
    tap.equal(got, "errno=EPERM", "E45 file capabilities are refused", ran)
    got, ran = boxed_attack(["--rw", f"{place}:/w"], "chmod", "/w/f", "0755")
    tap.equal(got, "ok", "E45 a plain chmod works", ran)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([the_launcher_cannot_be_overwritten, inherited_descriptors_are_closed,
               no_descriptor_leads_to_a_folder_of_the_host, the_working_folder_does_not_lead_out,
               a_symlink_in_a_bind_target_does_not_lead_out, a_swapped_target_never_leads_out,
               a_swapped_source_is_what_was_checked, no_cgroup_can_be_written,
               unix_sockets_in_binds, the_usual_sockets_are_not_there,
               absent_names_cannot_be_made, present_names_cannot_be_changed,
               protected_files_can_still_be_read, names_of_the_home_are_protected_where_a_folder_holds_them,
               binds_inside_a_writable_folder_keep_their_meaning, the_parent_of_protected_names_cannot_be_swapped,
               other_spellings_do_not_reach_an_ungranted_file, a_hidden_path_stays_hidden,
               the_boundary_does_not_follow_the_payload, locked_mount_flags_are_carried_over,
               every_mount_is_nosuid, setid_bits_cannot_be_left_behind,
               nothing_survives_this_suite])
