# as: root user userns container noclone3
"""What comes out of a box: regular files of its own, and nothing else (E40 A8 A27 A28)."""

import hashlib
import os
import shutil
import stat
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, IN_BOX, SCRATCH, box, has_writable_binds, run  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import needs, run_tests  # noqa: E402


def fresh(name="out"):
    path = os.path.join(SCRATCH, "artifacts", name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def collect(script, *flags, out=None):
    out = out or fresh()
    ran = box(["--artifacts", out, "--ro", f"{ATTACK}:{IN_BOX}", *flags], "sh", "-c", script)
    names = {a["path"]: a for a in ran["artifacts"]}
    return ran, names, out


def on_host(out):
    found = []
    for root, dirs, files in os.walk(out):
        found += [os.path.relpath(os.path.join(root, n), out) for n in files]
        found += [os.path.relpath(os.path.join(root, n), out) for n in dirs
                  if os.path.islink(os.path.join(root, n))]
    return sorted(found)


def plain_files_come_out(tap):
    ran, names, out = collect("printf hello > a.txt; mkdir -p d/e; printf x > d/e/f; : > zero; "
                              "printf y > a..b; printf z > 'with space'; printf n > .hidden")
    want = sorted(["a.txt", "d/e/f", "zero", "a..b", "with space", ".hidden"])
    tap.equal(sorted(names), want, "A27 A28 every plain file is in the record", ran)
    tap.equal(on_host(out), want, "A27 A28 and on the host", ran)
    a = names.get("a.txt", {})
    tap.equal((a.get("size_bytes"), a.get("sha256")), (5, hashlib.sha256(b"hello").hexdigest()),
              "E40 size and sha256 are those of the file", ran)
    path = os.path.join(out, "a.txt")
    tap.equal(a.get("host_path"), path, "E40 host_path is where it is", ran)
    tap.equal(os.stat(path).st_uid, os.getuid(), "E40 the file belongs to the caller")
    tap.equal(stat.S_IMODE(os.stat(path).st_mode) & 0o6022, 0,
              "E40 no set-id bit, nobody else may write")
    with open(path, encoding="utf-8") as f:
        tap.equal(f.read(), "hello", "E40 with its content")


def a_symlink_does_not_come_out(tap):
    tap.ok(run(["cat", "/etc/passwd"]).out, "E40 without a box: the target can be read")
    ran, names, out = collect("ln -s /etc/passwd link; ln -s /etc dir; ln -s plain inner; "
                              "echo ok > plain; ln -s ../../../../etc/passwd up")
    tap.equal(sorted(names), ["plain"], "E40 symlinks do not come out", ran)
    tap.equal(on_host(out), ["plain"], "E40 nor stand on the host as links", ran)


def a_folder_swapped_for_a_symlink_does_not_come_out(tap):
    """A child goes on swapping while the payload has ended."""
    ran, names, out = collect(
        "mkdir d; echo inner > d/passwd; (setsid sh -c 'while :; do mv d e; ln -s /etc d; rm d; "
        "mv e d; done' &) ; sleep 0.1; exit 0")
    texts = set()
    for name in on_host(out):
        with open(os.path.join(out, name), encoding="utf-8", errors="replace") as f:
            texts.add(f.read())
    tap.ok(texts <= {"inner\n"}, "E40 a folder swapped for a symlink gives the folder or nothing",
           (names, texts, str(ran)))


def special_files_do_not_come_out(tap):
    ran, names, out = collect("mkfifo fifo; mkdir s; echo ok > plain; "
                              "/usr/bin/python3 -c \"import socket; "
                              "socket.socket(socket.AF_UNIX).bind('s/sock')\"; ls -l fifo s/sock")
    tap.ok("fifo" in ran["stdout"] and "sock" in ran["stdout"],
           "E40 the fifo and the socket were there", ran)
    tap.equal(sorted(names), ["plain"], "E40 a fifo and a socket do not come out", ran)
    tap.takes(ran.wall, 0, 5, "E40 a fifo does not hang the collection", ran)
    tap.equal(on_host(out), ["plain"], "E40 nor are they on the host")


def a_second_name_does_not_come_out(tap):
    ran, names, _ = collect("echo ok > plain; echo two > one; ln one other; "
                            "ln /etc/passwd p 2>/dev/null; ls")
    tap.equal(sorted(names), ["plain"], "E40 a file with two names does not come out", ran)


def the_reason_is_told(tap):
    ran, _, _ = collect("ln -s /etc/passwd link; mkfifo fifo; exit 0")
    told = sorted((s["path"], s["why"]) for s in ran["skipped_artifacts"])
    tap.equal(told, [("fifo", "fifo"), ("link", "symlink")],
              "E40 what was left out is told, with the reason", ran)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def old_files_do_not_come_out(tap):
    place = fresh("work")
    os.makedirs(place)
    for name in ("old", "changed"):
        with open(os.path.join(place, name), "w", encoding="utf-8") as f:
            f.write("old\n")
    time.sleep(0.1)             # file times have the grain of the kernel's tick
    ran, names, _ = collect("echo new > new; echo more >> changed; exit 0",
                            "--rw", f"{place}:/workspace")
    tap.equal(sorted(names), ["changed", "new"],
              "E40 files made or changed in this run are artifacts, older ones are not", ran)


def the_artifacts_folder_is_not_followed_into(tap):
    """A symlink in the caller's artifacts folder must not redirect a file (agent-framework#6601)."""
    out = fresh()
    target = fresh("elsewhere")
    os.makedirs(out)
    os.makedirs(target)
    os.symlink(target, os.path.join(out, "d"))
    os.symlink(os.path.join(target, "evil"), os.path.join(out, "f"))
    ran, _, _ = collect("mkdir d; echo x > d/x; echo y > f", out=out)
    tap.equal(os.listdir(target), [], "E40 nothing is written through a symlink in the folder", ran)


def count_and_size_are_capped(tap):
    ran, names, out = collect("i=0; while [ $i -lt 200 ]; do echo $i > f$i; i=$((i+1)); done")
    tap.equal(len(names), 64, "A8 of 200 files 64 come out", ran)
    tap.equal(len(on_host(out)), 64, "A8 64 on the host")
    ran, names, out = collect("truncate -s 8G sparse; echo ok > plain")
    tap.equal(sorted(names), ["plain"], "A8 a sparse file of 8 GiB does not come out", ran)
    tap.equal(on_host(out), ["plain"], "A8 nor a part of it")
    tap.takes(ran.wall, 0, 10, "A8 nor is it read", ran)
    ran, names, _ = collect("p=.; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do p=$p/d; mkdir $p; "
                            "echo $i > $p/f; done")
    deepest = max((n.count("/") for n in names), default=0)
    tap.within(deepest, 1, 8, "A8 not deeper than eight folders", ran)
    ran, names, _ = collect("head -c 20000000 /dev/zero > a; head -c 20000000 /dev/zero > b")
    tap.equal(len(names), 1, "A8 not more than 32 MiB together", ran)


def many_files_are_no_denial_of_service(tap):
    ran, names, _ = collect(f"mkdir m; {IN_BOX} many-files m 100000; exit 0", "--timeout", "25")
    tap.ok(len(names) <= 64, "A8 of 100,000 files at most 64 come out", len(names))
    tap.takes(ran.wall, 0, 30, "A8 in bearable time", ran.wall)


def a_failing_run_gives_nothing_unless_asked(tap):
    ran, names, out = collect("echo x > x; exit 1")
    tap.equal((sorted(names), ran["exit_code"]), ([], 1), "D14 a failed run gives no artifacts", ran)
    tap.equal(on_host(out) if os.path.isdir(out) else [], [], "D14 nor files on the host", ran)
    ran, names, _ = collect("echo x > x; exit 1", "--set", "artifacts.collect=always")
    tap.equal(sorted(names), ["x"], "D14 with artifacts.collect=always it does", ran)


ODD = r"""printf x > '\..\..\x'; printf y > '...'; printf n > 'a
b'; printf z > ./-rf; printf u > "$(printf 'u\303\274')"; exit 0"""


def names_are_no_paths(tap):
    ran, names, out = collect(ODD)
    tap.ok(len(names) >= 4, "E40 odd names come out", ran)
    tap.ok(all(not os.path.isabs(n) and ".." not in n.split("/") for n in names),
           "E40 no name is absolute or climbs", ran)
    tap.equal(sorted(on_host(out)), sorted(names), "E40 odd names are on the host as recorded", ran)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([plain_files_come_out, a_symlink_does_not_come_out,
               a_folder_swapped_for_a_symlink_does_not_come_out, special_files_do_not_come_out,
               a_second_name_does_not_come_out, the_reason_is_told, old_files_do_not_come_out,
               the_artifacts_folder_is_not_followed_into, count_and_size_are_capped,
               many_files_are_no_denial_of_service, a_failing_run_gives_nothing_unless_asked,
               names_are_no_paths, nothing_survives_this_suite])
