# as: root user userns container noclone3
"""What a box sees: --ro, --rw, --tmpfs, the working folder, the environment, the tree."""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, NSBOX, SCRATCH, box, has_writable_binds, nsbox, own_mounts, run  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import needs, run_tests  # noqa: E402


def folder(name, files=()):
    path = os.path.join(SCRATCH, "mounts", name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    for file in files:
        os.makedirs(os.path.dirname(os.path.join(path, file)), exist_ok=True)
        with open(os.path.join(path, file), "w", encoding="utf-8") as f:
            f.write(file + "\n")
    return path


def sh(flags, script, **how):
    return box(flags, "sh", "-c", script, **how)


def read_only_binds(tap):
    place = folder("ro", ("a", "d/b"))
    ran = sh(["--ro", place], f"cat {place}/a {place}/d/b")
    tap.equal(ran["stdout"], "a\nd/b\n", "--ro PATH is there at the same place", ran)
    ran = sh(["--ro", f"{place}:/data"], "cat /data/a")
    tap.equal(ran["stdout"], "a\n", "--ro PATH:DEST is there at DEST", ran)
    ran = sh(["--ro", f"{place}/a:/one"], "cat /one")
    tap.equal(ran["stdout"], "a\n", "--ro of a file", ran)
    for act in ("echo x > /data/a", "echo x > /data/new", "rm /data/a", "mkdir /data/n", "mv /data/a /data/z",
                "ln -s x /data/l"):
        ran = sh(["--ro", f"{place}:/data"], act)
        tap.ok(ran["exit_code"] != 0 and "Read-only file system" in ran["stderr"],
               f"--ro refuses '{act}': EROFS", ran)
    ran = sh(["--ro", f"{place}:/a/b/c/d"], "cat /a/b/c/d/a")
    tap.equal(ran["stdout"], "a\n", "DEST may be deep", ran)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def writable_binds(tap):
    place = folder("rw", ("a",))
    ran = sh(["--rw", f"{place}:/data"], "echo new > /data/new; mkdir /data/d; echo x >> /data/a; "
             "mv /data/new /data/d/moved; stat -c %u /data /data/a /data/d/moved; umask")
    tap.equal((ran["exit_code"], ran["stdout"].split()[:3]), (0, ["1000"] * 3),
              "--rw can be written, and all of it belongs to the box's user", ran)
    for name in ("d", "d/moved", "a"):
        tap.equal((os.stat(f"{place}/{name}").st_uid, os.stat(f"{place}/{name}").st_gid),
                  (os.getuid(), os.getgid()), f"on the host {name} belongs to the caller")
    with open(f"{place}/a", encoding="utf-8") as f:
        tap.equal(f.read(), "a\nx\n", "the change is on the host")
    tap.equal(sorted(os.listdir(place)), ["a", "d"], "nothing else was left in the folder")
    inner = folder("rw2", ("sub/x", "a"))
    ran = sh(["--ro", inner, "--rw", f"{inner}/sub"], f"echo y > {inner}/sub/y; echo z > {inner}/a")
    tap.ok(os.path.exists(f"{inner}/sub/y") and "Read-only" in ran["stderr"],
           "--rw inside --ro is the writable part only", ran)


def somebody_elses_folder_is_not_writable(tap):
    if AS in ("root", "noclone3", "container"):
        tap.note("root owns what it likes; see the run as a user")
        return
    ran = nsbox("run", "--rw", "/etc:/e", "--", "true")
    tap.equal((ran.rc, ran.out), (125, b""), "--rw of a folder of somebody else's is refused", ran)
    ran = nsbox("run", "--ro", "/etc/passwd:/p", "--", "head", "-c", "5", "/p")
    tap.equal(ran.text(), "root:", "--ro of it is fine", ran)


def tmpfs_mounts(tap):
    ran = sh(["--tmpfs", "/scratch:16M"], "echo x > /scratch/x; df -B1 --output=size /scratch | tail -n 1")
    tap.equal((ran["exit_code"], ran["stdout"].strip()), (0, str(16 << 20)),
              "--tmpfs DEST:SIZE is writable and of that size", ran)
    ran = sh(["--tmpfs", "/scratch"], "echo x > /scratch/x && cat /scratch/x")
    tap.equal(ran["stdout"], "x\n", "--tmpfs without a size works", ran)
    ran = sh(["--tmpfs", "/scratch"], "ls -A /scratch")
    tap.equal(ran["stdout"], "", "and is empty in the next box", ran)


@needs(has_writable_binds, "idmapped mounts for root of this user namespace")
def working_folder(tap):
    place = folder("cwd", ("a", "d/b"))
    other = folder("other")
    for flags, cwd, want in (
            ([], other, "/workspace"), (["--ro", place], place, place),
            (["--ro", place], place + "/d", place + "/d"), (["--rw", place], place + "/d", place + "/d"),
            (["--ro", place], other, "/workspace"), (["--ro", place, "-w", "/tmp"], place, "/tmp"),
            (["--ro", f"{place}:/data"], place, "/data"), (["--ro", f"{place}:/data"], place + "/d", "/data/d")):
        # not pwd: a folder may have two names in a box (/var/tmp is /tmp)
        ran = sh(flags, f"test . -ef {want} && echo same", cwd=cwd)
        tap.equal((ran["stdout"].strip(), ran["working_directory"]), ("same", want),
                  f"{flags} from {cwd}: {want}".replace(SCRATCH, "$S"), ran)
    ran = nsbox("run", "-w", "/no/such", "--", "true")
    tap.equal((ran.rc, ran.out), (125, b""), "-w of a folder that is not there is refused", ran)
    ran = sh([], "echo x > /workspace/x; cat x; echo $HOME; stat -c %a /workspace")
    tap.equal(ran["stdout"].split()[:2], ["x", "/workspace"], "/workspace is writable, and HOME", ran)
    ran = sh([], "ls -A /workspace /tmp")
    tap.ok("x" not in ran["stdout"].split(), "it is empty in the next box", ran)


def environment(tap):
    ran = sh([], "env | sort")
    env = dict(line.split("=", 1) for line in ran["stdout"].strip().split("\n"))
    tap.equal((env.get("HOME"), env.get("MPLBACKEND"), env.get("PYTHONUNBUFFERED")),
              ("/workspace", "Agg", "1"), "HOME, MPLBACKEND and PYTHONUNBUFFERED are set", ran)
    tap.ok(all(env.get(k) for k in ("PATH", "LANG")), "PATH and LANG are set", env)
    allowed = {"PATH", "HOME", "LANG", "TZ", "TERM", "MPLBACKEND", "PYTHONUNBUFFERED", "USER", "LOGNAME",
               "SHELL", "TMPDIR", "PWD", "SHLVL", "_", "OLDPWD", "LC_ALL", "PYTHONDONTWRITEBYTECODE",
               "MPLCONFIGDIR", "XDG_CACHE_HOME", "npm_config_cache", "NPM_CONFIG_CACHE", "PIP_CACHE_DIR",
               "PYTHONPYCACHEPREFIX", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOSTNAME",
               "NPM_CONFIG_UPDATE_NOTIFIER", "npm_config_update_notifier", "NODE_OPTIONS", "PIP_DISABLE_PIP_VERSION_CHECK"}
    tap.equal(sorted(set(env) - allowed), [], "no other variable is", env)
    path = os.path.join(SCRATCH, "env.file")
    with open(path, "w", encoding="utf-8") as f:
        f.write("# a comment\nONE=1\nTWO=with space and = sign\n")
    ran = box(["--env-file", path, "-e", "THREE=3"], "sh", "-c", "echo $ONE; echo $TWO; echo $THREE")
    tap.equal(ran["stdout"], "1\nwith space and = sign\n3\n", "--env-file and -e NAME=VALUE", ran)
    ran = box(["-e", "EMPTY="], "sh", "-c", "echo ${EMPTY-unset}.")
    tap.equal(ran["stdout"], ".\n", "an empty value is a value", ran)


def the_tree(tap):
    ran = sh([], "ls /home /root 2>/dev/null | grep -v : | tr -d '\\n'; ls -d /usr /bin /tmp /proc /dev /workspace")
    tap.equal(ran["stdout"].split(), ["/bin", "/dev", "/proc", "/tmp", "/usr", "/workspace"],
              "nobody's home, and the usual folders", ran)
    ran = sh([], "ls /dev | sort | tr '\\n' ' '")
    want = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin",
            "stdout", "stderr"}
    have = set(ran["stdout"].split())
    tap.ok({"null", "zero", "full", "random", "urandom", "tty", "ptmx", "shm"} <= have,
           "/dev has the basic devices", ran)
    tap.equal(sorted(have - want - {"mqueue"}), [], "and no other", ran)
    ran = sh([], "echo x > /dev/null && head -c 2 /dev/zero | wc -c && head -c 2 /dev/urandom | wc -c; "
             "head -c 1 /dev/zero > /dev/full")
    tap.equal(ran["stdout"].split(), ["2", "2"], "they work", ran)
    tap.ok("No space left" in ran["stderr"], "/dev/full is full", ran)
    ran = sh([], "hostname; id -un; getent passwd 1000 | cut -d: -f3; getent hosts localhost | head -n 1 | "
             "awk '{print $2}'; stat -c %a /tmp; stat -c %a /dev/shm")
    words = ran["stdout"].split()
    tap.equal(words[0:1], ["nsbox"], "the host name is nsbox", ran)
    tap.equal(words[2:], ["1000", "localhost", "1777", "1777"],
              "passwd, hosts, and the modes of /tmp and /dev/shm", ran)
    ran = sh([], "/usr/bin/python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'")
    tap.equal(ran["stdout"], "[1, 2]\n", "a multiprocessing pool works", ran)


def options_and_operands_may_be_mixed(tap):
    ran = nsbox("run", "-m", "1G", "echo", "-n", "x")
    tap.equal((ran.rc, ran.out), (0, b"x"), "flags of the command are the command's", ran)
    ran = nsbox("run", "--memory=1G", "--", "echo", "--", "-m")
    tap.equal(ran.text(), "-- -m", "after -- everything is the command's", ran)
    ran = nsbox("run", "--dry-run", "--", "sh", "-c", "echo ran")
    tap.ok(ran.rc == 0 and b"ran\n" != ran.out and ran.out, "--dry-run shows the plan and runs nothing", ran)
    ran = nsbox("run", "--explain", "--", "sh", "-c", "echo ran")
    stages = ("prepare", "clone", "idmap", "mounts", "caps", "lockdown", "exec")
    tap.ok(ran.rc == 0 and all(s.encode() in ran.out for s in stages), "--explain names each stage", ran)


@needs(lambda: AS == "root", "the host's root, to mount for itself")
def a_read_only_file_system_needs_no_placeholder(tap):
    """--rw on it works, and neither the box nor nsbox can make a protected name there."""
    place = folder("rofs")
    linux = tuple(int(n) for n in os.uname().release.split(".")[:2])
    if os.geteuid() == 0 and linux < (6, 3):
        tap.skip("a read-only file system needs no placeholder", "idmapped mounts of tmpfs (Linux 6.3)")
        return
    for how, want in (("rw", "0"), ("ro", "1")):
        ran = run([*own_mounts(), "sh", "-c", f"mount -t tmpfs t {place} && mount -o remount,{how} "
                   f"{place} && exec {NSBOX} run --rw {place}:/w -- "
                   "sh -c 'touch /w/x; echo $?; touch /w/.envrc'"])
        tap.equal((ran.rc, ran.text()), (1, want), f"mounted {how}: the box runs, touch gives {want}", ran)
        tap.ok(b"'/w/.envrc': Read-only file system" in ran.err, f"mounted {how}: EROFS for the name", ran)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")
    tap.equal(run(["true"]).rc, 0, "and the host still starts programs")


if __name__ == "__main__":
    become_reaper()
    run_tests([read_only_binds, writable_binds, somebody_elses_folder_is_not_writable, tmpfs_mounts,
               working_folder, environment, the_tree, options_and_operands_may_be_mixed,
               a_read_only_file_system_needs_no_placeholder, nothing_survives_this_suite])
