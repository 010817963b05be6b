# as: root user
"""A29: commands that get past lists of forbidden shell words. In a box none needs a list."""

import os
import shutil
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import SCRATCH, box, run  # noqa: E402
from tap import run_tests  # noqa: E402

PLACE = os.path.join(SCRATCH, "shell-list")
FILES = {"etc/passwd": "root:x:0:0\n", "etc/shadow": "root:secret:1\n", "tree/a": "a\n", "tree/b/c": "c\n"}

# {d}: a folder with the files above, which the box sees read-only. Each line does its harm
# to it without a box. What it needs: a program; the shell that runs it is bash.
CHANGES = [
    ("rm", "rm -fr {d}/tree"),
    ("rm", "rm -Rf {d}/tree"),
    ("find", "find {d}/tree -delete"),
    ("find", "find {d}/tree -type f -exec rm -r {{}} +"),
    ("python3", "env python3 -c 'import shutil; shutil.rmtree(\"{d}/tree\")'"),
    ("python3", "python3 -c'import os; os.unlink(\"{d}/tree/a\")'"),
    ("python3", "python3 -Ic 'import os; os.unlink(\"{d}/tree/a\")'"),
    ("perl", "perl -le 'unlink \"{d}/tree/a\"'"),
    ("awk", "awk 'BEGIN {{ system(\"rm {d}/tree/a\") }}'"),
    ("git", "git -c core.pager='sh -c \"rm {d}/tree/a\"' -p help -a >/dev/null; rm -f {d}/tree/a"),
    ("sed", "sed -i s/root/evil/ {d}/etc/passwd"),
    ("tar", "tar -C / -cf - etc/hostname 2>/dev/null | tar -C {d}/etc -xf - --transform 's,etc/hostname,passwd,'"),
    ("cp", "cp --target-directory={d}/etc --no-preserve=mode /dev/null; echo evil | cp /dev/stdin {d}/etc/passwd"),
    ("timeout", "timeout 1s touch -d 2001-01-01 {d}/etc/passwd"),
    ("bash", "true\nrm -f {d}/tree/a"),
    ("bash", "echo evil | tee {d}/etc/passwd"),
    ("bash", "echo 'a;b' > {d}/etc/passwd"),
    ("ln", "ln -sf /dev/null {d}/etc/passwd"),
    ("dd", "dd if=/dev/null of={d}/etc/passwd"),
]


def new_place():
    shutil.rmtree(PLACE, ignore_errors=True)
    for name, text in FILES.items():
        path = os.path.join(PLACE, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def state():
    """Every name below, with what it is, what it holds and its time."""
    found = {}
    for root, dirs, files in os.walk(PLACE):
        for name in sorted(dirs + files):
            path = os.path.join(root, name)
            st = os.lstat(path)
            text = b""
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    text = f.read()
            found[os.path.relpath(path, PLACE)] = (oct(st.st_mode), text, int(st.st_mtime))
    return found


def what_changes_a_tree_without_a_box_changes_nothing_from_inside(tap):
    for program, line in CHANGES:
        command = line.format(d=PLACE)
        if not shutil.which(program):
            tap.skip(f"A29 {command}", program)
            continue
        new_place()
        before = state()
        run(["bash", "-c", command])
        tap.ok(state() != before, f"A29 without a box: {command}", before)
        new_place()
        before = state()
        ran = box(["--ro", PLACE], "bash", "-c", command)
        tap.equal((ran["verdict"], state()), ("exited", before), f"A29 {command}", ran)
    shutil.rmtree(PLACE, ignore_errors=True)


def what_the_caller_could_read_cannot_be_read_or_sent(tap):
    new_place()
    secret = os.path.join(PLACE, "etc/shadow")
    tap.equal(run(["cat", secret]).text(), "root:secret:1", "A29 without a box: cat of a file of the caller's")
    ran = box([], "cat", secret)
    tap.equal((ran["exit_code"], "secret" in ran["stdout"]), (1, False), "A29 cat of it", ran)
    ran = box([], "sh", "-c", "cat /etc/shadow; cat /etc/passwd")
    names = [line.split(":")[0] for line in ran["stdout"].splitlines()]
    tap.equal((names, "/etc/shadow: No such file" in ran["stderr"]), (["root", "nsbox", "nobody"], True),
              "A29 the box's passwd is its own, and there is no shadow", ran)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.5)
        address = f"/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        ran = box([], "bash", "-c", f"cat /etc/passwd > {address}")
        tap.equal(ran["exit_code"], 1, "A29 sending it to a port of the host", ran)
        try:
            server.accept()
            arrived = True
        except TimeoutError:
            arrived = False
        tap.equal(arrived, False, "A29 nothing arrived")
        run(["bash", "-c", f"echo x > {address}"])
        server.settimeout(20)
        server.accept()[0].close()
        tap.ok(True, "A29 without a box: it does")
    shutil.rmtree(PLACE, ignore_errors=True)


def what_wants_privileges_gets_none(tap):
    rows = [
        ("mount -t tmpfs x /mnt", 32),
        ("umount /proc", 32),
        ("sudo -n true || su -c true", None),
        ("chroot / true", None),
        ("hostname evil", 1),
        ("date -s 2001-01-01", 1),
        ("nice -n -5 true; chown 0:0 /workspace", 1),
        ("mknod /workspace/sda b 8 0", 1),
        ("kill -9 1; sleep 0.1; echo alive; exit 3", 3),
    ]
    for command, code in rows:
        ran = box([], "bash", "-c", command)
        tap.ok(ran["verdict"] == "exited" and ran["exit_code"] != 0 and code in (None, ran["exit_code"]),
               f"A29 {command}", ran)


if __name__ == "__main__":
    run_tests([
        what_changes_a_tree_without_a_box_changes_nothing_from_inside,
        what_the_caller_could_read_cannot_be_read_or_sent,
        what_wants_privileges_gets_none,
    ])
