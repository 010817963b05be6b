# as: root user userns container noclone3
"""--json: exactly one object, every field there and of its type."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, IN_BOX, SCRATCH, VERDICTS, box, nsbox  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

NULL = type(None)
NUMBER = (int, float)
FIELDS = {
    "schema": str, "tier": str, "verdict": str, "exit_code": (int, NULL), "signal": (int, NULL),
    "success": bool, "reason": (str, NULL), "stdout": str, "stdout_encoding": str,
    "stdout_bytes": int, "stdout_truncated": bool, "stderr": str, "stderr_encoding": str,
    "stderr_bytes": int, "stderr_truncated": bool, "artifacts": list, "usage": dict,
    "enforced": dict, "limits": dict, "denials": list, "network": (dict, NULL), "working_directory": str, "setup_ms": NUMBER,
    "analysis": (dict, NULL),
}
USAGE = {"wall_ms": NUMBER, "user_ms": (*NUMBER, NULL), "system_ms": (*NUMBER, NULL),
         "memory_peak_bytes": (int, NULL), "pids_peak": (int, NULL),
         "io_read_bytes": (int, NULL), "io_written_bytes": (int, NULL),
         "throttled_ms": (*NUMBER, NULL), "throttled_count": (int, NULL),
         "cpu_stall_ms": (*NUMBER, NULL), "memory_stall_ms": (*NUMBER, NULL),
         "memory_full_stall_ms": (*NUMBER, NULL), "io_stall_ms": (*NUMBER, NULL),
         "io_full_stall_ms": (*NUMBER, NULL)}
ENFORCED = ("memory", "cpu", "pids", "network", "filesystem", "syscalls", "time", "disk", "output",
            "landlock", "io")
ARTIFACT = {"path": str, "host_path": str, "size_bytes": int, "content_type": (str, NULL), "sha256": str}
DENIAL = {"layer": str, "what": str, "rule": (str, NULL), "allow": (str, NULL), "count": (int, NULL)}


def typed(value, kind):
    """bool is an int for isinstance, and not for a schema."""
    if kind is not bool and isinstance(value, bool):
        return False
    return isinstance(value, kind)


def wrong_fields(record, fields):
    return [f"{name}: {record.get(name, 'missing')!r}" for name, kind in fields.items()
            if name not in record or not typed(record[name], kind)]


def check(tap, ran, what):
    r = ran.record
    tap.equal(wrong_fields(r, FIELDS), [], f"{what}: every field is there and of its type", ran)
    tap.equal(wrong_fields(r["usage"], USAGE), [], f"{what}: usage is complete", ran)
    tap.equal([k for k in ENFORCED if r["enforced"].get(k) not in ("kernel", "userspace", "none")], [],
              f"{what}: enforced has a strength for each layer", ran)
    tap.ok(r["verdict"] in VERDICTS, f"{what}: the verdict is a known word", ran)
    tap.equal([w for d in r["denials"] for w in wrong_fields(d, DENIAL)], [], f"{what}: denials", ran)
    tap.equal(ran.err, b"", f"{what}: nothing on stderr", ran)
    tap.equal(ran.out.count(b"\n"), 1, f"{what}: one line", ran)


def every_ending_has_a_full_record(tap):
    endings = {
        "success": ([], ["echo", "hi"]), "failure": ([], ["false"]),
        "signal": ([], ["sh", "-c", "kill -9 $$"]),
        "timeout": (["--timeout", "300ms"], ["sleep", "9"]),
        "denial": (["--ro", f"{ATTACK}:{IN_BOX}"], [IN_BOX, "x32", "39"]),
        "memory": (["-m", "64M", "--ro", f"{ATTACK}:{IN_BOX}"], [IN_BOX, "eat", str(1 << 32)]),
        "no output": ([], ["true"]),
    }
    for what, (flags, command) in endings.items():
        check(tap, box(flags, *command), what)


def values_are_true(tap):
    ran = box([], "sh", "-c", "echo hi; echo oops >&2; sleep 0.3; exit 3")
    tap.equal((ran["tier"], ran["verdict"], ran["exit_code"], ran["success"]),
              ("local", "exited", 3, False), "tier, verdict, exit_code and success", ran)
    tap.equal((ran["stdout"], ran["stdout_bytes"], ran["stderr"], ran["stderr_bytes"]),
              ("hi\n", 3, "oops\n", 5), "output and its size", ran)
    tap.within(ran["usage"]["wall_ms"], 300, 1500, "wall_ms", ran)
    tap.ok(0 < ran["setup_ms"] < 1000, "setup_ms is measured", ran)
    tap.equal(ran["working_directory"], "/workspace", "working_directory", ran)
    tap.equal(ran.rc, 3, "nsbox exits with the same status", ran)


def cpu_time_is_told(tap):
    ran = box([], "/usr/bin/python3", "-c", "import time\nwhile time.process_time() < 0.5: pass")
    used = (ran["usage"]["user_ms"] or 0) + (ran["usage"]["system_ms"] or 0)
    tap.within(used, 400, 1500, "half a second of CPU time is about that in the record", ran)
    ran = box([], "/usr/bin/python3", "-c", "x = b'x' * (100 << 20)")
    peak = ran["usage"]["memory_peak_bytes"]
    tap.ok(peak is None or (60 << 20) < peak < (400 << 20),
           "100 MiB of memory show in the peak, or it is null", ran)


def layers_in_force(tap):
    ran = box([], "true")
    for layer in ("network", "filesystem", "syscalls"):
        tap.equal(ran["enforced"][layer], "kernel", f"{layer} is enforced by the kernel", ran)
    for layer in ("memory", "cpu", "pids", "time"):
        tap.among(ran["enforced"][layer], ("kernel", "userspace"), f"{layer} is enforced", ran)
    ran = nsbox("run", "--require", "kernel", "--", "echo", "ran")
    weak = [k for k, v in box([], "true")["enforced"].items() if v == "userspace" and k not in
            ("time", "output")]
    if weak:
        tap.equal((ran.rc, ran.out), (125, b""), f"--require kernel refuses where {weak} is userspace", ran)
        tap.ok(any(w.encode() in ran.err for w in weak), "and says which", ran)
    else:
        tap.equal((ran.rc, ran.out), (0, b"ran\n"), "--require kernel runs where all is kernel", ran)


def limits_in_force(tap):
    ran = box(["-m", "300M", "--cpus", "0.5", "--cpu-time", "1.5", "--pids", "77", "--timeout", "2500ms",
               "--set", "limits.files=99", "--set", "limits.file_size=3M", "--disk", "8M",
               "--set", "limits.tmp=4M", "--set", "limits.shm=2M", "--set", "limits.inodes=1500",
               "--output-limit", "64K"], "true")
    got, enforced = ran["limits"], ran["enforced"]
    want = {"memory_bytes": 300 << 20, "memory_high_bytes": None,
            "swap_bytes": 0 if enforced["memory"] == "kernel" else None, "cpus": 0.5,
            "cpu_time_ms": 1500, "pids": 77, "timeout_ms": 2500, "files": 99,
            "file_size_bytes": 3 << 20, "disk_bytes": 8 << 20, "disk_inodes": 1500,
            "tmp_bytes": 4 << 20, "tmp_inodes": 1024, "shm_bytes": 2 << 20, "shm_inodes": 1024,
            "io_weight": None, "stdout_bytes": 65536, "stderr_bytes": 65536}
    tap.equal(got, want, "limits are the numbers in force: K, M, fractions", ran)
    ran = box(["--set", "limits.inodes=100"], "sh", "-c",
              "i=0; while true > /tmp/$i; do i=$((i + 1)); done 2>/dev/null; ls /tmp | wc -l")
    tap.equal(ran["stdout"].strip(), "99", "limits.inodes bounds files and folders, the root one of them",
              ran)
    for key, value in (("memory_high", "64M"), ("oom", "process"), ("io_weight", "50")):
        ran = nsbox("run", "--json", "--set", f"limits.{key}={value}", "--", "true")
        degraded = box(["--set", f"limits.{key}={value}", "--allow-degraded"], "true")
        if ran.rc == 125:
            tap.ok(json.loads(ran.out)["code"] == "unsupported" and f"limits.{key}".encode() in ran.out,
                   f"A18 limits.{key} that nobody can hold is refused by name", ran)
            tap.equal(degraded["limits"].get(f"{key}_bytes", degraded["limits"].get(key)), None,
                      f"limits.{key} left out is not claimed", degraded)
        else:
            layer = "io" if key == "io_weight" else "memory"
            tap.equal((ran.rc, json.loads(ran.out)["enforced"][layer]), (0, "kernel"),
                      f"A18 limits.{key} is accepted only where the kernel holds it", ran)
            tap.equal(degraded["enforced"][layer], "kernel", f"limits.{key} holds also then", degraded)


def odd_text_stays_json(tap):
    text = 'quote " backslash \\ tab \t newline \n nul-free \u00fc \u20ac \U0001F600 \u2028 \x7f \x01'
    ran = box(["-i"], "cat", stdin=text.encode())
    tap.equal((ran["stdout_encoding"], ran["stdout"]), ("utf-8", text), "odd characters survive", ran)
    ran = box([], "printf", r"a\000b")
    tap.ok((ran["stdout_encoding"], ran["stdout"]) in (("utf-8", "a\0b"), ("base64", "YQBi")),
           "a NUL byte survives", ran)
    # surrogates and overlong forms are no UTF-8
    for data in (b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xe2\x82"):
        ran = box(["-i"], "cat", stdin=data)
        tap.equal(ran["stdout_encoding"], "base64", f"{data!r} is base64", ran)


def artifacts_are_typed(tap):
    out = os.path.join(SCRATCH, "record-out")
    ran = box(["--artifacts", out], "sh", "-c", "echo a > a.txt; printf '\\211PNG\\r\\n\\032\\n' > b.png")
    tap.equal([w for a in ran["artifacts"] for w in wrong_fields(a, ARTIFACT)], [],
              "artifacts have every field", ran)
    kinds = {a["path"]: a["content_type"] for a in ran["artifacts"]}
    tap.equal(kinds.get("b.png"), "image/png", "a content type is told", ran)


def a_status_descriptor_gets_the_record(tap):
    path = os.path.join(SCRATCH, "status")
    with open(path, "wb") as f:
        ran = nsbox("run", "--status-fd", str(f.fileno()), "--", "sh", "-c", "echo hi; exit 4",
                    pass_fds=(f.fileno(),))
    tap.equal((ran.rc, ran.out), (4, b"hi\n"), "with --status-fd output passes through", ran)
    with open(path, "rb") as f:
        record = json.loads(f.read())
    tap.equal((record["schema"], record["verdict"], record["exit_code"]),
              ("nsbox.result/1", "exited", 4), "and the record comes on the descriptor", record)


def nothing_survives_this_suite(tap):
    tap.equal(leftovers(2), [], "no process is left of this suite's boxes")


if __name__ == "__main__":
    become_reaper()
    run_tests([every_ending_has_a_full_record, values_are_true, cpu_time_is_told, layers_in_force, limits_in_force,
               odd_text_stays_json, artifacts_are_typed, a_status_descriptor_gets_the_record,
               nothing_survives_this_suite])
