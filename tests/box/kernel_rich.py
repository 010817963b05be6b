# as: root
"""Rich results of what people really use in notebooks: pandas, matplotlib, PIL, numpy. The
packages come from the package index into a folder that is removed afterwards."""

import base64
import os
import subprocess
import sys
import tempfile
import venv

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from cells import Kernel  # noqa: E402
from host import become_reaper  # noqa: E402
from tap import run_tests  # noqa: E402

PACKAGES = ["numpy", "pandas", "matplotlib", "pillow"]
PNG = b"\x89PNG\r\n\x1a\n"


def install(folder):
    """The path of an interpreter that has the packages, or what went wrong."""
    venv.create(folder, with_pip=True)
    python = os.path.join(folder, "bin/python3")
    try:
        done = subprocess.run([python, "-m", "pip", "install", "-q", "--only-binary", ":all:", *PACKAGES],
                              capture_output=True, text=True, timeout=400)
    except subprocess.TimeoutExpired:
        return None, "pip took more than 400 s"
    return (python, "") if done.returncode == 0 else (None, done.stderr.strip().split("\n")[-1])


def is_png(text):
    return base64.b64decode(text).startswith(PNG)


def frames_have_data(tap, k):
    done = k.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\ndf", timeout=120)
    tap.equal(done["mime"]["application/vnd.nsbox.data+json"], {"a": [1, 2], "b": ["x", None]}, "K9 a DataFrame's data", done)
    tap.ok("<table" in done["mime"]["text/html"], "and its table")
    tap.equal(done["value"]["$t"], "repr", "which does not cross as a value")


def figures_are_shown(tap, k):
    done = k.run("import matplotlib.pyplot as plt\nline = plt.plot([1, 2], [3, 4], label='l')\nplt.title('T')\n"
                 "plt.xlabel('X');", timeout=120)
    shown = done["shown"]
    tap.equal([is_png(form["image/png"]) for form in shown], [True], "K9 an open figure is shown at the end, once", done)
    axes = shown[0]["application/vnd.nsbox.chart+json"]["axes"][0]
    tap.equal((axes["title"], axes["x_label"], axes["series"]),
              ("T", "X", [{"kind": "line", "label": "l", "points": [[1, 3], [2, 4]]}]), "K9 with what is in the chart")
    tap.equal(k.run("plt.get_fignums()")["value"], [], "and closed")
    done = k.run("plt.bar(['a', 'b'], [1, 2]); plt.show(); print('after')")
    tap.equal((len(done["shown"]), done["out"], done["err"]), (1, "after\n", ""), "show() shows, without a warning")
    done = k.run("fig, ax = plt.subplots(); sc = ax.scatter([1], [2])\nfig")
    tap.equal((len(done["shown"]), is_png(done["mime"]["image/png"])), (0, True), "a figure that is the value is shown once")


def images_and_arrays_cross(tap, k):
    done = k.run("from PIL import Image\nImage.new('RGB', (2, 3), 'red')", timeout=120)
    tap.equal((done["value"]["$t"], is_png(done["value"]["v"]), is_png(done["mime"]["image/png"])), ("image", True, True),
              "an image of PIL")
    k.tools["same"] = lambda value: value
    k.do("tools", tools=[{"name": "same"}])
    for code in ("np.arange(6, dtype='<i2').reshape(2, 3)", "np.float64(1.5)", "np.array([1+2j])", "np.array([], dtype=bool)",
                 "np.array(['2020-01-01'], dtype='M8[D]')", "np.asfortranarray(np.eye(2))"):
        same = f"import numpy as np\nv = {code}\nw = same(v)\n" \
            "type(w) is type(v) and w.dtype == v.dtype and w.shape == v.shape and bool((w == v).all())"
        tap.equal(k.run(same, timeout=120)["value"], True, f"there and back: {code}")
    done = k.run("np.arange(3, dtype='<i2')")["value"]
    tap.equal(done, {"$t": "ndarray", "v": {"dtype": "<i2", "shape": [3], "data": "AAABAAIA"}}, "an array by its bytes")
    tap.equal(k.run("np.array([object()])")["value"]["$t"], "repr", "but not one of objects")


def rich_values(tap):
    with tempfile.TemporaryDirectory(prefix="nsbox-rich.") as folder:
        os.chmod(folder, 0o755)
        python, why = install(os.path.join(folder, "venv"))
        if not python:
            tap.skip("rich values", f"a package index with {', '.join(PACKAGES)}: {why}")
            return
        with Kernel(interpreter=python, limits__memory="2G", limits__pids=256) as k:
            frames_have_data(tap, k)
            figures_are_shown(tap, k)
            images_and_arrays_cross(tap, k)


if __name__ == "__main__":
    become_reaper()
    sys.exit(run_tests([rich_values]))
