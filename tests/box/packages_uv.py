# as: user
# needs: an index
"""Packages of Python installed by uv: the real one, from the package index, with indexes made here."""

import base64
import functools
import http.server
import json
import os
import re
import shutil
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))
import prepared  # noqa: E402
from box import BARE_ENV, SCRATCH, nsbox, parse_record, run  # noqa: E402
from host import become_reaper  # noqa: E402
from tap import needs, run_tests  # noqa: E402
from wheels import source, wheel  # noqa: E402

PYTHON = "/usr/bin/python3"
LIMIT = 300
FAILED = "packages_failed: Package installation failed: "
UV = None       # a folder with the real uv


def install(folder):
    """A venv with uv in @folder: (path of uv, None) or (None, why not)."""
    venv = os.path.join(folder, "venv")
    for argv in ([sys.executable, "-m", "venv", venv], [f"{venv}/bin/pip", "install", "-q", "uv"]):
        ran = run(argv, env=dict(os.environ), limit=LIMIT)
        if ran.rc != 0:
            return None, f"no uv: {ran.err.decode(errors='replace').strip()[-200:]}"
    return f"{venv}/bin/uv", None


def alone(uv):
    """A folder with uv and no python beside it."""
    folder = place("uv-only")
    os.symlink(uv, f"{folder}/uv")
    return folder


def place(name):
    folder = os.path.join(SCRATCH, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def home(name, **settings):
    """An empty cache, pip's settings as variables, and uv on PATH."""
    return {"XDG_CACHE_HOME": place(f"uv-cache-{name}"), "PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "0",
            "PATH": f"{UV}:{BARE_ENV['PATH']}", **settings}


def code(env, specs, text, *flags):
    args = [w for s in specs for w in ("--with", s)]
    ran = nsbox("code", "--json", "--interpreter", PYTHON, *args, *flags, "-c", text, env=env, limit=LIMIT)
    ran.record = parse_record(ran)
    return ran


def says(tap, ran, text, name, installer="uv"):
    return tap.equal((ran["verdict"], ran["exit_code"], ran["stdout"], (ran["packages"] or {}).get("installer")),
                     ("exited", 0, text, installer), name, ran)


def uv_is_used_where_it_is(tap):
    folder = place("uv-wheels")
    wheel(folder, "leaf-pkg", files={"leaf_pkg.py": "WORD = 'leaf'\n"})
    wheel(folder, "leaf-pkg", "2.0", files={"leaf_pkg.py": "WORD = 'two'\n"})
    wheel(folder, "hello-box", requires=["leaf-pkg>=1"], scripts="say-hello = hello_box:main",
          files={"hello_box.py": "import leaf_pkg\nWORD = 'hello ' + leaf_pkg.WORD\ndef main(): print(WORD)\n"})
    source(folder, "built", "said.append(os.path.exists('/layer/packages'))")
    rules = os.path.join(place("uv-rules"), "constraints.txt")
    with open(rules, "w", encoding="ascii") as f:
        f.write("leaf-pkg<2\n")
    env = home("folder", PIP_NO_INDEX="1", PIP_FIND_LINKS=folder, PIP_CONSTRAINT=rules)
    text = "import built, hello_box; print(hello_box.WORD, built.SAID)"
    ran = code(env, ["hello-box", "built"], text)
    says(tap, ran, "hello leaf [True]\n", "uv installs wheels and builds sources, by pip's folders and constraints")
    tap.equal([(p["name"], p["version"], p["hash"]) for p in ran["packages"]["resolved"]],
              [("built", "1.0", None), ("hello-box", "1.0", None), ("leaf-pkg", "1.0", None)], "the lock says what it chose", ran["packages"])
    ran = nsbox("run", "--with", "hello-box", "--with", "built", "--", "say-hello", env=env)
    tap.equal((ran.rc, ran.out), (0, b"hello leaf\n"), "programs of packages are on PATH", ran)
    shown = json.loads(nsbox("cache", "list", "--json", env=env).out)["layers"]
    tap.equal([x["installer"] for x in shown], ["uv"], "the cache says who installed", shown)
    says(tap, code(env, ["hello-box", "built"], text, "--set", "packages.installer=pip"), "hello leaf [True]\n",
         "packages.installer chooses pip, whose layer is another", "pip")
    says(tap, code({**env, "PIP_PREFER_BINARY": "1"}, ["hello-box"], "print(1)"), "1\n", "so does a setting that uv does not know", "pip")
    ran = code({**env, "PIP_ONLY_BINARY": ":all:"}, ["built"], "print('ran')")
    tap.ok(ran.rc == 122 and ran["reason"].startswith(FAILED + "built: "), "only-binary admits no build script", ran["reason"])
    ran = code(env, ["hello-box==7"], "print('ran')")
    tap.ok(ran.rc == 122 and ran["stdout"] is None and re.match(re.escape(FAILED) + "hello-box==7: No solution found .*hello-box==7", ran["reason"]),
           "D8 what cannot be had is said in uv's words", ran["reason"])


class Index(http.server.SimpleHTTPRequestHandler):
    """A folder with a login."""

    login = "Basic " + base64.b64encode(b"me:S3cretOfTheTest").decode()

    def do_GET(self):  # noqa: N802
        if self.headers.get("Authorization") == self.login:
            return super().do_GET()
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic")
        self.send_header("Content-Length", "0")
        return self.end_headers()

    def log_message(self, *_):
        pass


def a_login_is_used_and_kept_nowhere(tap):
    folder = place("uv-index")
    wheel(f"{folder}/hello-box", "hello-box")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Index, directory=folder))
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    env = home("index", PIP_INDEX_URL=f"http://me:S3cretOfTheTest@127.0.0.1:{port}/")
    says(tap, code(env, ["hello-box"], "import hello_box; print(hello_box.WORD)"), "hello-box\n", "an index with a login is asked")
    left = run(["grep", "-rl", "S3cretOfTheTest", env["XDG_CACHE_HOME"]])
    tap.equal((left.rc, left.out), (1, b""), "which is nowhere in the cache", left)
    env = home("index2", PIP_INDEX_URL=f"http://me:Wr0ngOfTheTest@127.0.0.1:{port}/")
    ran = code(env, ["hello-box"], "print('ran')")
    tap.ok(ran.rc == 122 and ran["reason"].startswith(FAILED + "hello-box: ") and "Wr0ng" not in ran["reason"], "a wrong one is refused", ran["reason"])
    server.shutdown()


def a_shim_is_no_uv(tap):
    folder, shims = place("uv-plain"), place("uv-shims")
    wheel(folder, "hello-box")
    with open(f"{shims}/uv", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nexit 3\n")
    os.chmod(f"{shims}/uv", 0o755)
    env = home("shim", PIP_NO_INDEX="1", PIP_FIND_LINKS=folder, PATH=f"{shims}:{BARE_ENV['PATH']}")
    ran = nsbox("code", "--interpreter", PYTHON, "--with", "hello-box", "--set", "packages.installer=uv", "-c", "print('ran')", env=env)
    tap.ok(ran.rc == 125 and not ran.out and b"packages.installer is uv, and there is none on PATH" in ran.err, "a script that starts uv is none", ran)
    if run([PYTHON, "-I", "-c", "import pip"]).rc == 0:
        says(tap, code(env, ["hello-box"], "print(1)"), "1\n", "auto takes pip then", "pip")
    env["PATH"] = f"{shims}:{UV}:{BARE_ENV['PATH']}"
    says(tap, code(env, ["hello-box"], "print(2)"), "2\n", "and a uv behind it")


if __name__ == "__main__":
    prepared.if_asked(__file__, install)
    become_reaper()
    made = prepared.get(__file__, install)
    try:
        UV = alone(made.python) if made.python else None
        TESTS = [uv_is_used_where_it_is, a_login_is_used_and_kept_nowhere, a_shim_is_no_uv]
        run_tests([needs(lambda: UV, f"a package index with uv: {made.why}")(t) for t in TESTS])
    finally:
        made.cleanup()
