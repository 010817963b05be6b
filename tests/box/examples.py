# as: root user
"""Every example in a box prints what it prints outside of one."""

import os
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, REPO, SCRATCH, run  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

EXAMPLES = os.path.join(REPO, "examples")
# The interpreter that has numpy and its friends is the distribution's.
PYTHON = os.environ.get("NSBOX_PYTHON") or "/usr/bin/python3"
PLAIN = "standard library"


def here(*names):
    return os.path.join(EXAMPLES, *names)


def python(name, *flags, needs=PLAIN):
    path = here(name)
    return (name, needs, [PYTHON, path], ["code", "--interpreter", PYTHON, *flags, path])


def shell(name, *files):
    """A script and the files next to it, at /src in the box."""
    binds = [word for f in (name, *files) for word in ("--ro", f"{here(f)}:/src/{f}")]
    return (name, {"build_c.sh": "gcc", "git_demo.sh": "git"}[name], ["sh", here(name)],
            ["run", *binds, "--", "sh", f"/src/{name}"])


PYTEST = ["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
TABLE = (
    python("csv_stats.py", "--ro", here("data")),
    python("plot.py", needs="numpy pandas matplotlib"),
    python("pool.py"),
    python("sqlite_demo.py"),
    python("subprocess_demo.py"),
    python("asyncio_demo.py"),
    ("workers.js", "node", ["node", here("workers.js")], ["code", here("workers.js")]),
    ("pipeline.sh", "bash", ["bash", here("pipeline.sh")], ["code", here("pipeline.sh")]),
    shell("build_c.sh", "hello.c"),
    ("pytest_project", "pytest", [PYTHON, *PYTEST, here("pytest_project")],
     ["run", "--ro", here("pytest_project") + ":/src", "-w", "/src", "--", PYTHON, *PYTEST]),
    shell("git_demo.sh"),
)


def lacks(needs):
    """The first thing of @needs that this host does not have, or None."""
    if not os.access(PYTHON, os.X_OK):
        return PYTHON
    for word in () if needs == PLAIN else needs.split():
        is_module = word in ("numpy", "pandas", "matplotlib", "pytest")
        if is_module and subprocess.run([PYTHON, "-c", f"import {word}"], check=False,
                                        stderr=subprocess.DEVNULL).returncode != 0:
            return f"the Python module {word} for {PYTHON}"
        if not is_module and not shutil.which(word):
            return word
    return None


def stable(text):
    return re.sub(rb" in \d+\.\d+s", b" in N s", text)


def fresh(name):
    path = os.path.join(SCRATCH, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def inside_and_outside_print_the_same(tap):
    for name, needs, bare, boxed in TABLE:
        missing = lacks(needs)
        if missing:
            tap.skip(f"{name} prints the same in a box", missing)
            continue
        outside = run(bare, cwd=fresh("outside"),
                      env={"MPLBACKEND": "Agg", "MPLCONFIGDIR": fresh("mpl"),
                           "TMPDIR": fresh("tmp")})
        if not tap.ok(outside.rc == 0 and len(outside.out) > 20,
                      f"{name} runs outside of a box", outside):
            continue
        inside = run([NSBOX, *boxed], cwd=fresh("caller"))
        tap.equal((inside.rc, stable(inside.out)), (0, stable(outside.out)),
                  f"{name} prints the same in a box", inside)
        tap.equal(inside.err, b"", f"{name} says nothing on stderr in a box")
        tap.equal(os.listdir(os.path.join(SCRATCH, "caller")), [],
                  f"{name} leaves nothing in the caller's folder")


def the_plot_comes_out(tap):
    missing = lacks("numpy pandas matplotlib")
    if missing:
        tap.skip("plot.png comes out of the box", missing)
        return
    out = os.path.join(fresh("artifacts"), "out")
    ran = run([NSBOX, "code", "--interpreter", PYTHON, "--artifacts", out,
               here("plot.py")])
    if not tap.equal((ran.rc, sorted(os.listdir(out)) if os.path.isdir(out) else None),
                     (0, ["plot.png"]), "plot.png and nothing else comes out of the box", ran):
        return
    path = os.path.join(out, "plot.png")
    with open(path, "rb") as f:
        head = f.read(24)
    tap.equal(head[:8], b"\x89PNG\r\n\x1a\n", "plot.png is a PNG")
    tap.equal(struct.unpack(">II", head[16:24]), (900, 400), "plot.png has the size asked for")
    tap.equal(os.stat(path).st_uid, os.getuid(), "plot.png belongs to the caller")


def without_the_bind_the_data_is_not_there(tap):
    ran = run([NSBOX, "code", "--interpreter", PYTHON, here("csv_stats.py")])
    tap.equal((ran.rc, b"FileNotFoundError" in ran.err), (1, True),
              "csv_stats.py finds no data that was not given to it", ran)


def nothing_is_left_behind(tap):
    tap.equal(leftovers(), [], "no process of an example is left")


if __name__ == "__main__":
    become_reaper()
    run_tests([inside_and_outside_print_the_same, the_plot_comes_out,
               without_the_bind_the_data_is_not_there, nothing_is_left_behind])
