# as: root user userns container
"""nsbox sweep: what a machine that lost its power, or kill -9 of everything, left."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, environ, has_writable_binds, nsbox  # noqa: E402
from host import become_reaper, descendants, kill_leftovers, leftovers  # noqa: E402
from tap import needs, run_tests  # noqa: E402

PLACEHOLDER_TIME = 28275


def folder(name):
    path = os.path.join(SCRATCH, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def placeholder(path, filled=False):
    """As a box makes one: sticky from birth, then a time that nothing else has."""
    os.mkdir(path)
    os.chmod(path, 0o1755)
    if filled:
        os.mkdir(os.path.join(path, "mine"))
    os.utime(path, (PLACEHOLDER_TIME, PLACEHOLDER_TIME))


def swept(*folders, cwd=None, env=None):
    ran = nsbox("sweep", "--json", *folders, cwd=cwd, env=env)
    if ran.rc not in (0, 1):
        raise AssertionError(str(ran))
    record = json.loads(ran.out)
    if record["schema"] != "nsbox.sweep/1":
        raise AssertionError(str(ran))
    return record


def mine(record, place):
    return sorted((r["kind"], os.path.relpath(r["path"], place)) for r in record["removed"]
                  if r["path"].startswith(place + "/"))


def placeholders_go_and_folders_of_people_stay(tap):
    place = folder("swept")
    os.mkdir(f"{place}/.git")
    placeholder(f"{place}/.git/hooks")
    placeholder(f"{place}/.vscode")
    placeholder(f"{place}/unprotected")
    placeholder(f"{place}/.idea", filled=True)
    os.mkdir(f"{place}/.direnv")
    os.symlink(".direnv", f"{place}/.envrc")
    tap.equal(mine(swept(place), place), [("placeholder", ".git/hooks"), ("placeholder", ".vscode")],
              "placeholders of protected names are removed, and said to be")
    tap.equal(sorted(os.listdir(place)), [".direnv", ".envrc", ".git", ".idea", "unprotected"],
              "what has another name, is filled, or is a folder of somebody's stays")
    tap.equal(mine(swept(place), place), [], "a second time there is nothing to do")


def what_a_box_holds_stays(tap):
    place = folder("held")
    placeholder(f"{place}/.vscode")
    fd = os.open(f"{place}/.vscode", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    tap.equal(mine(swept(place), place), [], "a placeholder that a box holds stays")
    os.close(fd)
    tap.equal(mine(swept(place), place), [("placeholder", ".vscode")], "and goes when it does not")


def half_written_files_go(tap):
    place, cache = folder("files"), folder("cache")
    names = [".nsbox-0123456789abcdef", ".nsbox-00000000000000ff", ".nsbox-notes", "plot.png"]
    for name in names:
        with open(f"{place}/{name}", "w", encoding="utf-8") as f:
            f.write("x")
    os.makedirs(f"{cache}/nsbox", mode=0o700)
    digest = "interp-" + "0" * 64
    for name in (f"{digest}.4711", digest):
        with open(f"{cache}/nsbox/{name}", "w", encoding="utf-8") as f:
            f.write("x")
    with open(f"{place}/{names[1]}", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        record = swept(place, env={"XDG_CACHE_HOME": cache})
        tap.equal(mine(record, place), [("file", names[0])],
                  "an artifact that was being copied goes, unless somebody holds its lock")
        tap.equal(mine(record, cache), [("file", f"nsbox/{digest}.4711")],
                  "and so does an entry of the cache that was being written")
    tap.equal((sorted(os.listdir(place)), os.listdir(f"{cache}/nsbox")), (sorted(names[1:]), [digest]),
              "the rest stays")


def a_folder_that_is_not_there_is_an_error(tap):
    ran = nsbox("sweep", os.path.join(SCRATCH, "none"))
    tap.equal((ran.rc, ran.out, ran.err.count(b"\n")), (125, b"", 1), "no such folder: 125 and one line", ran)
    tap.ok(b"No such file" in ran.err, "which says why", ran)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def nothing_is_left_when_the_guardian_is_killed_too(tap):
    place = folder("guarded")
    with subprocess.Popen([NSBOX, "run", "--rw", f"{place}:/w", "--", "sh", "-c", "echo ready; sleep 60"],
                          stdout=subprocess.PIPE, env=environ(), cwd=SCRATCH) as box:
        tap.equal(box.stdout.readline(), b"ready\n", "the box runs")
        tap.equal(mine(swept(place), place), [], "a sweep beside it takes nothing of it")
        guardians, end = [], time.monotonic() + 3   # it takes its name when it first gets its turn
        while not guardians and time.monotonic() < end:
            guardians = [pid for pid, name, _ in descendants(box.pid) if name == "nsbox-guardian"]
        for pid in guardians:
            os.kill(pid, 9)
        box.kill()
    tap.equal(len(guardians), 1, "its guardian was found")
    tap.equal(leftovers(2), [], "no process is left")
    tap.ok(os.listdir(place), "control: placeholders are left", os.listdir(place))
    left = sorted(os.listdir(place))
    tap.equal(sorted({path for _, path in mine(swept(place), place)}), left, "the sweep removes them all")
    tap.equal(os.listdir(place), [], "nothing is left")
    kill_leftovers()


if __name__ == "__main__":
    become_reaper()
    run_tests([placeholders_go_and_folders_of_people_stay, what_a_box_holds_stays, half_written_files_go,
               a_folder_that_is_not_there_is_an_error, nothing_is_left_when_the_guardian_is_killed_too])
