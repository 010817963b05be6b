# as: root user
"""The tier local_unsafe: what it still promises, and that it says what it does not."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, environ, nsbox, parse_record  # noqa: E402
from tap import run_tests  # noqa: E402

UNSAFE = ("--tier", "local_unsafe", "--json")


def unsafe(*argv, flags=(), **how):
    ran = nsbox("run", *UNSAFE, *flags, "--", *argv, **how)
    ran.record = parse_record(ran)
    return ran


def code(source, *flags, **how):
    ran = nsbox("code", *UNSAFE, *flags, "-c", source, **how)
    ran.record = parse_record(ran)
    return ran


def marked(mark):
    """Pids of the processes whose command line holds this word."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(int(pid))
    return found


def gone(mark, seconds=20):
    end = time.monotonic() + seconds
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.02)
    return not marked(mark)


def seen(mark, count, seconds=20):
    """They show their command line a moment after execve has succeeded."""
    end = time.monotonic() + seconds
    while len(marked(mark)) < count and time.monotonic() < end:
        time.sleep(0.02)
    return marked(mark)


def new_mark():
    """A length of sleep that nobody else asks for."""
    return "7" + str(int.from_bytes(os.urandom(4), "big"))


def it_is_a_plain_process_of_the_caller(tap):
    ran = code("import os, sys\nprint(os.getuid(), os.getcwd(), os.environ['HOME'], sys.argv)")
    home = environ()["HOME"]
    tap.equal((ran["tier"], ran["verdict"], ran["stdout"]),
              ("local_unsafe", "exited", f"{os.getuid()} {SCRATCH} {home} ['-c']\n"),
              "uid, folder and home are the caller's", ran)
    tap.equal(ran["working_directory"], SCRATCH, "the record has the working directory")
    with tempfile.NamedTemporaryFile("w", dir=SCRATCH) as f:
        f.write("seen")
        f.flush()
        tap.equal(unsafe("cat", f.name)["stdout"], "seen", "it reads what the caller can")
    ran = unsafe("sh", "-c", "exit 3")
    tap.equal((ran.rc, ran["exit_code"]), (3, 3), "its exit code is passed on")
    ran = unsafe("sh", "-c", "kill -9 $$")
    tap.equal((ran.rc, ran["verdict"], ran["signal"]), (137, "signaled", 9), "so is its signal")
    ran = unsafe("no-such-program")
    tap.equal((ran.rc, ran["exit_code"]), (127, 127), "and a command that is not there")


def the_record_says_that_nothing_is_enforced(tap):
    ran = unsafe("true", flags=("--memory", "64M", "--net", "filtered", "--allow-out", "a.test"))
    strong = {k: v for k, v in ran["enforced"].items() if v != "none"}
    tap.equal(strong, {"time": "userspace", "output": "userspace"}, "but time and output", ran)
    held = {k for k, v in ran["limits"].items() if v is not None}
    tap.equal(held, {"timeout_ms", "stdout_bytes", "stderr_bytes"}, "no other limit is listed")
    tap.equal(ran["notes"], ["the tier local_unsafe isolates nothing: of the policy only time and "
                             "output are in force"], "and a note says it")
    ran = nsbox("run", "--tier", "local_unsafe", "--", "true")
    tap.ok(b"isolates nothing" in ran.err, "people are told, too", ran)
    control = nsbox("run", "--", "true")
    tap.equal(control.err, b"", "control: nothing is said in the tier local", control)


def what_is_explained_is_what_holds(tap):
    ran = nsbox("run", "--explain", "--tier", "local_unsafe", "--", "true")
    rows = {line.split()[0]: line for line in ran.out.decode().splitlines() if line.strip()}
    tap.ok("nothing: the caller's capabilities stay" in rows["caps"]
           and "nothing: no Landlock, no seccomp" in rows["lockdown"]
           and "all files of the caller's are in reach" in rows["mounts"], "no promise of a box is made", ran)
    control = nsbox("run", "--explain", "--", "true")
    tap.ok(b"all five capability sets are empty" in control.out, "control: in a box they are", control)
    ran = nsbox("run", "--explain", "--json", "--tier", "local_unsafe", "--", "true")
    promises = [s["promise"] for s in json.loads(ran.out)["stages"]]
    tap.ok(not any("old root is gone" in p or "capability sets" in p for p in promises), "nor as JSON", ran)


def the_timeout_ends_the_whole_tree(tap):
    mark = new_mark()
    ran = unsafe("sh", "-c", f"echo kept; sleep {mark} & (setsid sleep {mark} &); "
                             f"trap '' TERM; sleep {mark}; sleep {mark}",
                 flags=("--timeout", "1"))
    tap.equal((ran.rc, ran["verdict"], ran["stdout"]), (124, "timed_out", "kept\n"),
              "partial output is kept", ran)
    tap.within(ran.wall, 0.9, 10, "on time")
    tap.ok(gone(mark), "children, and those that left the session, are dead")


def the_end_of_the_program_ends_what_it_left(tap):
    mark = new_mark()
    ran = unsafe("sh", "-c", f"sleep {mark} & (setsid sh -c '(sleep {mark} &) ; sleep {mark}' &); exit 0")
    tap.equal((ran.rc, ran["exit_code"]), (0, 0), "a child that holds the streams delays nothing", ran)
    tap.within(ran.wall, 0, 10, "it is over at once")
    tap.ok(gone(mark), "what it left is dead")
    control = subprocess.Popen(["sleep", mark])
    tap.equal(seen(mark, 1), [control.pid], "control: such a process is seen while it lives")
    control.kill()
    control.wait()


def the_death_of_the_launcher_ends_it(tap):
    mark = new_mark()
    proc = subprocess.Popen([NSBOX, "run", *UNSAFE, "--", "sh", "-c",
                             f"(setsid sleep {mark} &); sleep {mark}"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ())
    # the shell itself names the mark inside a longer word
    tap.equal(len(seen(mark, 2)), 2, "control: both run")
    proc.send_signal(signal.SIGKILL)
    proc.wait()
    tap.ok(gone(mark), "both are dead after SIGKILL of the launcher")


def output_is_bounded_and_stdin_is_empty(tap):
    ran = unsafe("sh", "-c", "yes | head -c 3000000; cat", flags=("--output-limit", "1K"), stdin=b"secret")
    tap.equal((ran["exit_code"], ran["stdout_bytes"], ran["stdout_truncated"], len(ran["stdout"]) <= 1024),
              (0, 3000000, True, True), "3 MB of output in 1 KiB, and nothing of stdin", ran)
    tap.equal(unsafe("cat", flags=("-i",), stdin=b"given")["stdout"], "given", "control: -i passes stdin on")


def the_environment_is_an_allow_list(tap):
    ran = unsafe("env", env={"SECRET_TOKEN": "x1", "PLAIN": "y1"})
    tap.ok("x1" not in ran["stdout"] and "y1" not in ran["stdout"], "nothing of the caller's comes along", ran)
    ran = unsafe("env", flags=("-e", "PLAIN"), env={"PLAIN": "y1"})
    tap.ok("PLAIN=y1\n" in ran["stdout"], "control: -e passes a variable on", ran)


def artifacts_are_made_in_their_folder(tap):
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        out = os.path.join(folder, "out")
        ran = code("open('a.txt', 'w').write('x')\nimport os; os.mkdir('d'); open('d/b.json', 'w').write('{}')",
                   "--artifacts", out)
        tap.equal([(a["path"], a["size_bytes"], a["content_type"]) for a in ran["artifacts"]],
                  [("a.txt", 1, "text/plain"), ("d/b.json", 2, "application/json")],
                  "which is the working folder", ran)
        tap.equal(ran["working_directory"], out, "as the record says")
        ran = code("raise SystemExit(1)", "--artifacts", out)
        tap.equal(ran["artifacts"], [], "none of a failed run, and no old ones")


def nothing_is_left_of_the_code(tap):
    before = {n for n in os.listdir("/tmp") if n.startswith("nsbox-code.")}
    for source in ("print(1)", "import os; os.kill(os.getpid(), 9)", "x = ("):
        code(source)
    code("import time; time.sleep(60)", "--timeout", "1")
    after = {n for n in os.listdir("/tmp") if n.startswith("nsbox-code.")}
    tap.equal(after - before, set(), "no folder in /tmp")
    ran = code("import os, sys\np = os.path.dirname(sys._getframe().f_globals.get('__file__', '') or '/')\n"
               "d = [n for n in os.listdir('/tmp') if n.startswith('nsbox-code.')]\n"
               "print([oct(os.stat('/tmp/' + n).st_mode & 0o777) for n in d if os.stat('/tmp/' + n).st_uid == os.getuid()])")
    tap.ok("'0o700'" in ran["stdout"], "control: while it runs there is one, for the caller alone", ran)


def import_rules_and_languages_work_as_in_a_box(tap):
    ran = code("import os", "--no-imports")
    tap.equal((ran.rc, ran["verdict"], ran["analysis"]["unauthorized"]), (122, "skipped", ["os"]),
              "import rules", ran)
    ran = code("echo $((6 * 7))", "--language", "bash")
    tap.equal(ran["stdout"], "42\n", "bash", ran)
    ran = code("x = (")
    tap.equal((ran["exit_code"], 'File "<code>", line 1' in ran["stderr"]), (1, True), "tracebacks say <code>", ran)
    ran = nsbox("run", "-t", "--tier", "local_unsafe", "--", "true")
    tap.equal(ran.rc, 125, "there is no terminal")
    ran = nsbox("run", "--tier", "docker", "--json", "--", "true")
    tap.equal((ran.rc, json.loads(ran.out)["message"]), (125, "the tier docker is not built yet"),
              "the tiers of an engine are not built")


if __name__ == "__main__":
    run_tests([
        it_is_a_plain_process_of_the_caller,
        the_record_says_that_nothing_is_enforced,
        what_is_explained_is_what_holds,
        the_timeout_ends_the_whole_tree,
        the_end_of_the_program_ends_what_it_left,
        the_death_of_the_launcher_ends_it,
        output_is_bounded_and_stdin_is_empty,
        the_environment_is_an_allow_list,
        artifacts_are_made_in_their_folder,
        nothing_is_left_of_the_code,
        import_rules_and_languages_work_as_in_a_box,
    ])
