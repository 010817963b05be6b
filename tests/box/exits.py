# as: root user userns container noclone3
"""How a run ends: exit statuses (D21), signals, streams, stdin, time."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, IN_BOX, NSBOX, SCRATCH, box, environ, nsbox, run  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402


def the_programs_own_status_comes_through(tap):
    for code in (0, 1, 2, 42, 121, 122, 125, 127, 128, 200, 255):
        ran = nsbox("run", "--", "sh", "-c", f"exit {code}")
        tap.equal((ran.rc, ran.out, ran.err), (code, b"", b""), f"exit {code} comes through, silently",
                  ran)
        ran = box([], "sh", "-c", f"exit {code}")
        tap.equal((ran["verdict"], ran["exit_code"], ran["success"], ran["signal"]),
                  ("exited", code, code == 0, None), f"exit {code} in the record", ran)


def a_signal_is_128_and_its_number(tap):
    for number in (1, 2, 3, 6, 9, 11, 13, 15, 10):
        ran = nsbox("run", "--ro", f"{ATTACK}:{IN_BOX}", "--", IN_BOX, "die", str(number))
        tap.equal(ran.rc, 128 + number, f"death of signal {number} gives {128 + number}", ran)
        ran = box(["--ro", f"{ATTACK}:{IN_BOX}"], IN_BOX, "die", str(number))
        tap.equal((ran["verdict"], ran["signal"], ran["exit_code"], ran["success"]),
                  ("signaled", number, None, False), f"death of signal {number} in the record", ran)


def not_found_and_not_executable(tap):
    place = os.path.join(SCRATCH, "exec")
    os.makedirs(place, exist_ok=True)
    with open(f"{place}/plain", "w", encoding="utf-8") as f:
        f.write("no program\n")
    with open(f"{place}/lost", "w", encoding="utf-8") as f:
        f.write("#!/no/such/interpreter\n")
    os.chmod(f"{place}/plain", 0o644)
    os.chmod(f"{place}/lost", 0o755)
    for command, code in (("no-such-program", 127), ("/no/such/program", 127), (f"{place}/plain", 126),
                          ("/usr", 126), (f"{place}/lost", 127)):
        ran = nsbox("run", "--ro", place, "--", command)
        tap.equal((ran.rc, ran.out), (code, b""), f"'{command.replace(SCRATCH, '$S')}' gives {code}", ran)
        tap.ok(ran.err.startswith(b"nsbox: ") and ran.err.count(b"\n") == 1,
               f"'{command.replace(SCRATCH, '$S')}' is told in one line", ran)


def verdicts_and_their_statuses(tap):
    ran = nsbox("run", "--timeout", "300ms", "--", "sleep", "60")
    tap.equal(ran.rc, 124, "wall-clock timeout gives 124", ran)
    tap.ok(ran.err.startswith(b"nsbox: ") and b"--timeout" in ran.err,
           "a timeout is told on stderr with its remedy", ran)
    ran = nsbox("run", "-m", "64M", "--timeout", "20", "--ro", f"{ATTACK}:{IN_BOX}", "--", IN_BOX,
                "eat", str(1 << 32))
    tap.equal(ran.rc, 123, "killed for memory gives 123", ran)
    ran = nsbox("run", "--ro", f"{ATTACK}:{IN_BOX}", "--", IN_BOX, "x32", "39")
    tap.equal(ran.rc, 122, "killed for a forbidden call gives 122", ran)
    ran = nsbox("run", "--no-such-flag", "--", "true")
    tap.equal(ran.rc, 125, "a wrong flag gives 125", ran)


def streams_are_apart_and_untouched(tap):
    data = bytes(range(256)) * 40
    ran = nsbox("run", "-i", "--", "cat", stdin=data)
    tap.equal(ran.out, data, "every byte passes through, in and out")
    ran = nsbox("run", "--", "sh", "-c", "echo out; echo err >&2; printf 'no newline'")
    tap.equal((ran.out, ran.err), (b"out\nno newline", b"err\n"), "stdout and stderr stay apart", ran)
    big = os.urandom(1 << 20)
    ran = nsbox("run", "-i", "--output-limit", "8M", "--", "cat", stdin=big)
    tap.ok(ran.out == big, "1 MiB through the box is the same", (len(ran.out), ran.err[:200]))


def output_is_streamed(tap):
    start = time.monotonic()
    proc = subprocess.Popen([NSBOX, "run", "--", "sh", "-c", "echo first; sleep 2; echo second"],
                            stdout=subprocess.PIPE, env=environ(), cwd=SCRATCH)
    tap.equal(proc.stdout.readline(), b"first\n", "the first line comes")
    tap.takes(time.monotonic() - start, 0, 1.5, "while the program still runs")
    tap.equal(proc.stdout.read(), b"second\n", "the second later")
    tap.equal(proc.wait(), 0, "and the status is 0")
    proc.stdout.close()


def a_closed_reader_does_not_hang_it(tap):
    ran = run(["/bin/sh", "-c", f"{NSBOX} run --timeout 20 -- yes | head -n 1"], limit=30)
    tap.equal(ran.out, b"y\n", "yes | head ends", ran)
    tap.takes(ran.wall, 0, 5, "at once", ran)
    with open("/dev/full", "wb") as full:
        proc = subprocess.run([NSBOX, "run", "--", "echo", "x"], stdout=full, stderr=subprocess.PIPE,
                              env=environ(), cwd=SCRATCH, check=False, timeout=30)
    tap.ok(proc.returncode != 0, "output that cannot be written is no success", proc)


def stdin_rules(tap):
    ran = nsbox("run", "--", "sh", "-c", "wc -c; readlink /proc/self/fd/0", stdin=b"abc")
    tap.equal(ran.out.split()[:1], [b"0"], "without -i there is nothing to read", ran)
    ran = run([NSBOX, "run", "-i", "--", "wc", "-c"], stdin=b"abc")
    tap.equal(ran.text(), "3", "with -i a pipe is read to its end", ran)
    path = os.path.join(SCRATCH, "input")
    with open(path, "wb") as f:
        f.write(b"from a file\n")
    ran = run(["/bin/sh", "-c", f"{NSBOX} run -i -- cat < {path}"])
    tap.equal(ran.out, b"from a file\n", "with -i a file is read", ran)
    proc = subprocess.Popen([NSBOX, "run", "-i", "--", "sh", "-c", "exit 3"], stdin=subprocess.PIPE,
                            env=environ(), cwd=SCRATCH)
    try:
        tap.equal(proc.wait(timeout=10), 3, "with -i an open stdin does not delay the end")
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.wait()
        tap.ok(False, "with -i an open stdin does not delay the end")
    proc.stdin.close()
    ran = run(["/bin/sh", "-c", f"{NSBOX} run -- true <&- >&- 2>&-; echo $?"])
    tap.equal(ran.text(), "0", "closed standard descriptors do no harm", ran)
    ran = run(["/bin/sh", "-c", f"{NSBOX} run -- echo hi <&-"])
    tap.equal(ran.text(), "hi", "a closed stdin alone does no harm", ran)


def a_background_child_does_not_delay_the_verdict(tap):
    for script in ("sleep 60 & echo done", "setsid sleep 60 & echo done",
                   "(trap '' TERM HUP; sleep 60) & echo done"):
        ran = nsbox("run", "--", "sh", "-c", script)
        tap.equal((ran.rc, ran.out), (0, b"done\n"), f"'{script}' gives its output and 0", ran)
        tap.takes(ran.wall, 0, 2, f"'{script}' ends with its first process", ran)


def output_is_cut_in_the_middle(tap):
    ran = box(["--output-limit", "4096"], "seq", "1", "100000")
    text = ran["stdout"]
    tap.ok(len(text.encode()) <= 4096, "what is kept fits the limit", len(text))
    tap.equal((ran["stdout_truncated"], ran["stdout_bytes"]), (True, 588895),
              "the record says how much there was", ran)
    tap.ok(text.startswith("1\n2\n3\n") and text.endswith("99999\n100000\n"),
           "the head and the tail are kept", text[:50] + "..." + text[-50:])
    tap.ok("bytes omitted" in text, "a notice says how much is missing")
    tap.equal(ran["exit_code"], 0, "the program does not notice")
    ran = box(["--output-limit", "1001"], "sh", "-c", "i=0; while [ $i -lt 500 ]; do printf 'äöü€'; "
              "i=$((i+1)); done")
    tap.equal(ran["stdout_encoding"], "utf-8", "a cut never splits a character", ran["stdout"][:80])
    ran = box(["--output-limit", "588895"], "seq", "1", "100000")
    tap.equal((ran["stdout_truncated"], len(ran["stdout"])), (False, 588895),
              "exactly the limit is not truncated")
    ran = box(["--output-limit", "588894"], "seq", "1", "100000")
    tap.equal(ran["stdout_truncated"], True, "one byte more is")


def signals_are_forwarded(tap):
    for number, name in ((15, "TERM"), (2, "INT"), (10, "USR1")):
        proc = subprocess.Popen([NSBOX, "run", "--", "sh", "-c",
                                 f"trap 'echo got {name}; exit 7' {name}; echo ready; "
                                 "while :; do sleep 0.1; done"],
                                stdout=subprocess.PIPE, env=environ(), cwd=SCRATCH)
        tap.equal(proc.stdout.readline(), b"ready\n", f"{name}: the payload is ready")
        proc.send_signal(number)
        try:
            out, _ = proc.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            proc.kill()
            out, _ = proc.communicate()
        tap.ok(out == f"got {name}\n".encode() and proc.returncode == 7,
               f"SIG{name} to nsbox reaches the payload, whose status comes back",
               (out, proc.returncode))


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([the_programs_own_status_comes_through, a_signal_is_128_and_its_number,
               not_found_and_not_executable, verdicts_and_their_statuses,
               streams_are_apart_and_untouched, output_is_streamed, a_closed_reader_does_not_hang_it,
               stdin_rules, a_background_child_does_not_delay_the_verdict,
               output_is_cut_in_the_middle, signals_are_forwarded, nothing_survives_this_suite])
