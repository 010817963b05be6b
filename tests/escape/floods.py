# as: root user userns container
"""Floods: of output, of files, of sizes that are not there, of the host's log (E27 A4 A8)."""

import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, box, boxed_attack, environ, nsbox, parse_record  # noqa: E402
from host import become_reaper, kill_leftovers, leftovers, peak_memory  # noqa: E402
from tap import EMULATED, run_tests  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
# 10 show nothing that half a one does not.
FLOOD = int(float(os.environ.get("NSBOX_TEST_FLOOD_GIB", "0.05" if EMULATED else "0.5")) * GIB)


def flood(script, *flags):
    """(record, memory of nsbox early on, its highest) of a payload that writes FLOOD bytes or more."""
    with subprocess.Popen([NSBOX, "run", "--json", "--timeout", "100", *flags, "--", "sh", "-c", script],
                          stdout=subprocess.PIPE, env=environ(), cwd=SCRATCH) as proc:
        began, early, peak = time.monotonic(), 0, 0
        os.set_blocking(proc.stdout.fileno(), False)
        text = b""
        while proc.poll() is None:
            peak = max(peak, peak_memory(proc.pid))
            if not early and time.monotonic() - began > 0.3:
                early = peak
            text += proc.stdout.read() or b""
            time.sleep(0.02)
        os.set_blocking(proc.stdout.fileno(), True)
        text += proc.stdout.read()
    return json.loads(text), early, peak


def yes_without_end(tap):
    """`yes` against --output-limit 1M, to both streams: counted, cut, and the launcher does not grow."""
    for stream, to in (("stdout", ""), ("stderr", " >&2")):
        record, early, peak = flood(f"yes | head -c {FLOOD}{to}", "--output-limit", "1M")
        tap.equal((record["verdict"], record["exit_code"], record[f"{stream}_bytes"], record[f"{stream}_truncated"]),
                  ("exited", 0, FLOOD, True), f"E27 A4 {FLOOD / GIB:g} GiB to {stream}: counted and cut",
                  str(record)[:300])
        tap.within(len(record[stream]), MIB // 2, MIB + 200, f"E27 1 MiB of {stream} is kept")
        tap.ok(early, "E27 nsbox was measured early on")
        tap.within(peak - early, 0, 6 * MIB, f"E27 A4 and its memory stays flat ({early >> 10} to {peak >> 10} KiB)")
    record, _, peak = flood("yes", "--output-limit", "1M", "--set", "limits.output_action=kill")
    tap.equal((record["verdict"], record["stdout_bytes"] < FLOOD), ("output_limit", True),
              "E27 `yes` with output_action=kill ends with the verdict output_limit", str(record)[:300])
    tap.within(peak, 0, 16 * MIB, "E27 and nsbox stays below 16 MiB")


def sizes_that_are_not_there(tap):
    """A sparse file is as long as one likes and takes nothing: not when it is collected either."""
    place = os.path.join(SCRATCH, "sparse")
    shutil.rmtree(place, ignore_errors=True)
    ran = nsbox("run", "--json", "--artifacts", place, "--", "sh", "-c",
                "truncate -s 64G /workspace/sparse && echo x > /workspace/small && du /workspace/sparse | cut -f 1")
    ran.record = parse_record(ran)
    tap.equal((ran["verdict"], ran["exit_code"], ran["stdout"]), ("exited", 0, "0\n"),
              "E27 a file of 64 GiB without content can be made: it takes nothing", ran)
    tap.equal([a["path"] for a in ran["artifacts"]], ["small"], "E27 A8 and is not collected", ran)
    tap.equal((os.listdir(place), [s["path"] for s in ran["skipped_artifacts"]]), (["small"], ["sparse"]),
              "E27 A8 the record says that it was skipped", ran)
    tap.within(ran.wall, 0, 5, "E27 A8 at once, not after 64 GiB of zeros")
    got, ran = boxed_attack(["--set", "limits.file_size=8M"], "fill", "/workspace/x", str(64 * MIB))
    tap.among(got, ("errno=EFBIG", "[signaled code=None signal=25]"), "E27 limits.file_size=8M holds", ran)
    got, ran = boxed_attack(["--set", "limits.file_size=8M"], "fill", "/workspace/x", str(4 * MIB))
    tap.equal(got, "ok", "E27 and lets 4 MiB pass", ran)


def more_names_than_there_are(tap):
    for where in ("/workspace", "/tmp", "/dev/shm"):
        got, ran = boxed_attack(["-m", "2G"], "many-files", where, "4000000")
        tap.equal(got, "errno=ENOSPC", f"E27 files without content in {where}: ENOSPC before 4 million", ran)
        got, ran = boxed_attack(["-m", "2G"], "many-files", where, "1000")
        tap.equal(got, "ok", f"E27 a thousand in {where}: all is well", ran)


def the_logs_of_the_host(tap):
    for where in ("/dev/kmsg", "/dev/log", "/run/systemd/journal/socket", "/dev/console"):
        got, ran = boxed_attack([], "create", where)
        tap.among(got, ("errno=ENOENT", "errno=EROFS", "errno=EACCES"), f"E27 {where} cannot be written to", ran)
    ran = box([], "sh", "-c", "logger flood 2>&1; dmesg 2>&1 | tail -1")
    tap.equal(ran["verdict"], "exited", "E27 logger and dmesg fail and do no harm", ran)
    if not tap.equal(leftovers(2), [], "E27 nothing survives"):
        kill_leftovers()


if __name__ == "__main__":
    become_reaper()
    run_tests([yes_without_end, sizes_that_are_not_there, more_names_than_there_are, the_logs_of_the_host])
