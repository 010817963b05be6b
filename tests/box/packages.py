# as: root user
# in: testnet
"""Packages: `--with SPEC`. Indexes are folders of wheels made here, and the test internet."""

import functools
import http.server
import json
import os
import pty
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))
from box import NSBOX, SCRATCH, environ, nsbox, parse_record, run  # noqa: E402
from host import become_reaper  # noqa: E402
from netservers import HTTP_PROXY, PASSWORD, USER  # noqa: E402
from tap import needs, run_tests  # noqa: E402
from testnet import PROXY, Internet, packets_sent  # noqa: E402
from wheels import source, wheel  # noqa: E402

PYTHON = "/usr/bin/python3"
NET = Internet()
LIMIT = 300
FAILED = "packages_failed: Package installation failed: "


# --- indexes ------------------------------------------------

def index(site, make, *args, **more):
    """The same in the folder that the test internet serves: a page for each project."""
    place = os.path.join(NET.files, site, args[0])
    make(place, *args, **more)
    links = "".join(f'<a href="{n}">{n}</a>' for n in sorted(os.listdir(place)) if n != "index.html")
    with open(os.path.join(place, "index.html"), "w", encoding="ascii") as f:
        f.write(f"<!DOCTYPE html><html><body>{links}</body></html>")


def cache(name):
    """An empty cache folder of this test, as environment."""
    place = os.path.join(SCRATCH, f"cache-{name}")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    # pip, whatever else is on PATH: uv has a suite of its own.
    os.makedirs(f"{place}/config/nsbox")
    with open(f"{place}/config/nsbox/policy.json", "w", encoding="ascii") as f:
        json.dump({"packages": {"installer": "pip"}}, f)
    return {"XDG_CACHE_HOME": place, "XDG_CONFIG_HOME": f"{place}/config", "PIP_CONFIG_FILE": "/dev/null", "PIP_RETRIES": "0"}


def of_folder(name, folder):
    return {**cache(name), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder}


def of_index(name, url, **more):
    return {**cache(name), "PIP_INDEX_URL": url, "PIP_CERT": NET.ca, **more}


def layers(env):
    place = os.path.join(env["XDG_CACHE_HOME"], "nsbox/layers")
    return place, sorted(n for n in os.listdir(place) if re.fullmatch("[0-9a-f]{64}", n))


def code(env, specs, text, *flags):
    """nsbox code --json with these packages; the parsed record."""
    args = [w for s in specs for w in ("--with", s)]
    ran = nsbox("code", "--json", "--interpreter", PYTHON, *args, *flags, "-c", text, env=env, limit=LIMIT)
    ran.record = parse_record(ran)
    return ran


def says(tap, ran, text, name):
    return tap.equal((ran["verdict"], ran["exit_code"], ran["stdout"]), ("exited", 0, text), name, ran)


def place(name):
    folder = os.path.join(SCRATCH, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


# --- what works ------------------------------------------------------------------------

def packages_of_a_folder_need_no_network(tap):
    folder = place("wheels")
    wheel(folder, "leaf-pkg", files={"leaf_pkg.py": "WORD = 'leaf'\n"})
    wheel(folder, "hello-box", requires=["leaf-pkg>=1"], scripts="say-hello = hello_box:main",
          files={"hello_box.py": "import leaf_pkg\nWORD = 'hello ' + leaf_pkg.WORD\ndef main(): print(WORD)\n"})
    env = of_folder("folder", folder)
    before = packets_sent()
    ran = code(env, ["Hello_Box == 1.0"], "import hello_box; print(hello_box.WORD, hello_box.__file__)")
    says(tap, ran, "hello leaf /run/nsbox/packages/hello_box.py\n", "a package and what it needs are there")
    os.unlink(os.path.join(folder, "hello_box-1.0-py3-none-any.whl"))
    ran = code(env, [" hello-box==1.0 "], "import hello_box; print(hello_box.WORD)")
    says(tap, ran, "hello leaf\n", "another spelling of the spec is the same layer, which needs no index any more")
    had = ran["packages"]
    tap.equal((had["installer"], had["layer"], [(p["name"], p["version"]) for p in had["resolved"]]),
              ("pip", layers(env)[1][0], [("hello-box", "1.0"), ("leaf-pkg", "1.0")]), "the record says what it had", had)
    tap.ok(all(p["hash"] is None or re.fullmatch("sha256:[0-9a-f]{64}", p["hash"]) for p in had["resolved"]), "with hashes, where pip says them", had)
    tap.equal(packets_sent() - before, 0, "no packet left the host")
    root, made = layers(env)
    tap.equal(len(made), 1, "there is one layer")
    with open(os.path.join(root, made[0], "lock"), encoding="ascii") as f:
        lock = f.read()
    tap.ok(re.fullmatch(r"hello-box==1\.0( --hash=sha256:[0-9a-f]{64})?\nleaf-pkg==1\.0( --hash=sha256:[0-9a-f]{64})?\n",
                        lock), "the lock file says what was resolved", lock)
    modes = {oct(os.lstat(os.path.join(d, n)).st_mode & 0o7777) for d, ds, fs in os.walk(os.path.join(root, made[0], "packages"))
             for n in ds + fs}
    tap.ok(modes <= {"0o755", "0o644"}, "nothing in it is writable by others", modes)
    tap.equal({os.lstat(os.path.join(root, made[0], "packages", n)).st_uid for n in ("hello_box.py", "bin")},
              {os.geteuid()}, "its files belong to the caller")
    ran = nsbox("run", "--with", "hello-box==1.0", "--", "sh", "-c", f"say-hello; {PYTHON} -c 'import hello_box'", env=env)
    tap.equal((ran.rc, ran.out), (0, b"hello leaf\n"), "a command finds its programs on PATH, and Python its modules", ran)
    ran = code(env, ["hello-box==1.0"], "import subprocess, sys\n"
               "print(subprocess.run([sys.executable, '-c', 'import hello_box'], capture_output=True).returncode)")
    says(tap, ran, "0\n", "so does a Python that the code starts")


def the_layer_is_read_only(tap):
    folder = place("wheels-ro")
    wheel(folder, "hello-box")
    text = ("import os\nfor p in ('/run/nsbox/packages', '/workspace'):\n"
            "    try: open(p + '/x', 'w'); print('written')\n"
            "    except OSError as e: print(e.errno)\n")
    ran = code(of_folder("ro", folder), ["hello-box"], text)
    says(tap, ran, "30\nwritten\n", "a box cannot write into a layer, but into its own folder")


def a_package_beats_the_interpreters_own_but_not_the_library(tap):
    folder = place("wheels-win")
    wheel(folder, "pip", "99.0", {"pip/__init__.py": "__version__ = '99.0'\n"})
    wheel(folder, "thief", "1.0", {"json/__init__.py": "STOLEN = 1\n", "thief.py": ""})
    env = of_folder("win", folder)
    text = "import pip, json; print(pip.__version__ == '99.0', hasattr(json, 'STOLEN'))"
    ran = code(env, ["thief"], text)
    says(tap, ran, "False False\n", "without it the interpreter's own pip is imported")
    says(tap, code(env, ["pip==99.0", "thief"], text), "True False\n", "with it the one that was asked for")


def pth_files_of_packages_are_run(tap):
    folder, project = place("wheels-pth"), place("project-pth")
    wheel(folder, "hooked", files={
        "hooked.py": "RAN = []\n", "more/inner_mod.py": "WORD = 'inner'\n",
        "b.pth": "import hooked; hooked.RAN.append('b')\nmore\nnowhere\n", ".hidden.pth": "import hooked; hooked.RAN.append('hidden')\n",
        "a.pth": "import hooked; hooked.RAN.append('a')\nimport os; exec('try: os.write(3, b\"forged\")\\nexcept OSError: hooked.RAN.append(\"no 3\")')\n",
        "c.pth": "import no_such_module\n"})
    wheel(folder, "gentle", files={"gentle.py": "RAN = []\n", "a.pth": "import gentle; gentle.RAN.append('a')\n"})
    env = of_folder("pth", folder)
    text = "import hooked, inner_mod, sys; print(hooked.RAN, inner_mod.WORD, sys.path[-1], __name__)"
    want = f"['a', 'no 3', 'b'] inner {project} __main__\n"
    ran = code(env, ["hooked"], text, "--project", project)
    says(tap, ran, want, "the .pth files of packages are run and add folders, before the code; --project stays last")
    tap.ok("Error processing line 1 of /run/nsbox/packages/c.pth" in ran["stderr"] and "no_such_module" in ran["stderr"],
           "what is wrong with one is said, as by site", ran["stderr"])
    ran = code(env, ["hooked"], text, "--allow-import", "hooked", "--allow-import", "inner_mod", "--allow-import", "sys", "--project", project)
    says(tap, ran, want, "imports of the code are judged before they run, and the report is out of their reach")
    ran = code(env, ["hooked"], "import socket", "--allow-import", "hooked")
    tap.ok(ran["verdict"] == "skipped" and ran["reason"].startswith("unauthorized_imports"), "a refused source runs none of them", ran)
    path = os.path.join(place("pth-kernel"), "k.py")
    with open(path, "w", encoding="ascii") as f:
        f.write("import nsbox\nwith nsbox.Sandbox(packages=['gentle'], interpreter='/usr/bin/python3') as box:\n"
                "    print(box.open().execute('import gentle; gentle.RAN[0]').value)\n")
    client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python")
    ran = run([PYTHON, path], env={**env, "PYTHONPATH": client, "NSBOX_BIN": NSBOX})
    tap.equal((ran.rc, ran.out), (0, b"a\n"), "a kernel runs them as well", ran)


def an_index_is_asked_once(tap):
    index("simple", wheel, "hello-box")
    env = of_index("index", "https://api.good.test/files/simple/")
    text = "import hello_box; print(hello_box.WORD)"
    NET.clear()
    says(tap, code(env, ["hello-box"], text), "hello-box\n", "pip's index and CA bundle are honoured")
    tap.equal(NET.lookups(), ["api.good.test"], "no other name was looked up")
    before = packets_sent()
    says(tap, code(env, ["hello-box"], text), "hello-box\n", "the second run has it from the cache")
    tap.equal(packets_sent() - before, 0, "and no packet left")
    ran = code({**of_index("no-ca", env["PIP_INDEX_URL"]), "PIP_CERT": ""}, ["hello-box"], "")
    tap.ok(ran["verdict"] == "skipped" and "certificate verify failed" in ran["reason"], "without the CA it is refused", ran)


def files_name_the_index_as_well(tap):
    index("simple", wheel, "hello-box")
    conf = os.path.join(place("conf"), "pip.conf")
    with open(conf, "w", encoding="ascii") as f:
        f.write(f"[global]\nindex-url = https://evil.test/nothing\ncert = {NET.ca}\n"
                "[install]\nindex-url =\n  https://api.good.test/files/simple/\n")
    env = {**cache("conf"), "PIP_CONFIG_FILE": conf}
    says(tap, code(env, ["hello-box"], "import hello_box; print(1)"), "1\n", "PIP_CONFIG_FILE is read, [install] before [global]")
    home = place("home")
    os.makedirs(f"{home}/.config/pip")
    shutil.copy(conf, f"{home}/.config/pip/pip.conf")
    env = {**cache("home"), "HOME": home}
    del env["PIP_CONFIG_FILE"]
    shutil.copytree(f"{env.pop('XDG_CONFIG_HOME')}/nsbox", f"{home}/.config/nsbox")
    says(tap, code(env, ["hello-box"], "import hello_box; print(1)"), "1\n", "so is the user's pip.conf")


def a_private_index_is_reached_and_nothing_else(tap):
    index("simple", wheel, "hello-box")
    url = "http://privatehosts.good.test/files/simple/"
    ran = nsbox("run", "--net", "filtered", "--allow-out", "privatehosts.good.test:80", "--", PYTHON, "-c",
                f"import urllib.request; urllib.request.urlopen('{url}hello-box/')", env=cache("x"))
    tap.ok(ran.rc != 0 and b"10.1.2.3" in ran.err, "a box does not reach a private address by itself", ran)
    env = of_index("private", url, PIP_TRUSTED_HOST="privatehosts.good.test")
    says(tap, code(env, ["hello-box"], "import hello_box; print(1)"), "1\n", "an index that pip's settings name may be private")


def an_index_on_the_loopback_is_reached_and_nothing_else_there(tap):
    folder = place("loopback")
    wheel(os.path.join(folder, "hello-box"), "hello-box")
    source(os.path.join(folder, "curious"), "curious", """
        import socket
        for host in ('127.0.0.1', '127-0-0-1.loopback.nsbox.internal'):
            for port in PORTS:
                try:
                    socket.create_connection((host, port), 10).close()
                    said.append('reached')
                except OSError:
                    said.append('refused')
    """.replace("PORTS", "[int(p) for p in open('/index/0/ports').read().split()]"))
    handler = functools.partial(Quiet, directory=folder)
    servers = [http.server.ThreadingHTTPServer((host, 0), handler) for host in ("127.0.0.1", "127.0.0.1")]
    for one in servers:
        threading.Thread(target=one.serve_forever, daemon=True).start()
    ports = [one.server_address[1] for one in servers]
    links = place("loopback-links")
    with open(os.path.join(links, "ports"), "w", encoding="ascii") as f:
        f.write(" ".join(map(str, ports)))
    for one in ports:
        socket.create_connection(("127.0.0.1", one), 10).close()
    for host in ("127.0.0.1", "localhost"):
        env = of_index("lo", f"http://{host}:{ports[0]}/")
        says(tap, code(env, ["hello-box"], "import hello_box; print(1)"), "1\n", f"an index on {host} is reached")
    env = {**of_index("lo2", f"http://127.0.0.1:{ports[0]}/"), "PIP_FIND_LINKS": links}
    ran = code(env, ["curious"], "import curious; print(curious.SAID)")
    says(tap, ran, "['refused', 'refused', 'reached', 'refused']\n", "and no other port of the host's loopback")
    for one in servers:
        one.shutdown()
        one.server_close()


TRY = """
    import urllib.request
    for url in ('http://evil.test/', 'http://10.1.2.4/', 'http://api.good.test:8080/', 'https://api.good.test/'):
        try:
            said.append(urllib.request.urlopen(url, timeout=20).status)
        except OSError as e:
            said.append('refused')
"""


def a_build_script_reaches_the_index_alone(tap):
    bare = run([PYTHON, "-c", textwrap.dedent("said = []\n") + textwrap.dedent(TRY) + "print(said)"],
               env={"SSL_CERT_FILE": NET.ca})
    tap.equal(bare.text(), "[200, 200, 200, 200]", "all of it is reached without a box", bare)
    index("simple", source, "curious", TRY.replace("import urllib", "import os; os.environ['SSL_CERT_FILE'] = "
                                                   "'/tmp/nsbox/ca.pem'; import urllib"))
    ran = code(of_index("curious", "https://api.good.test/files/simple/"), ["curious"], "import curious; print(curious.SAID)")
    says(tap, ran, "['refused', 'refused', 'refused', 200]\n", "a build script reaches the index and nothing else")
    local = place("sources")
    source(local, "curious", TRY)
    ran = code(of_folder("curious2", local), ["curious"], "import curious; print(curious.SAID)")
    says(tap, ran, "['refused', 'refused', 'refused', 'refused']\n", "of a folder it reaches nothing")


LOOK = """
    import glob
    for path in glob.glob('/proc/[0-9]*/cmdline') + glob.glob('/proc/[0-9]*/environ'):
        try:
            with open(path, 'rb') as f:
                said.append(b'%s' in f.read())
        except OSError:
            pass
    said = [len(said) > 3, any(said)]
""" % PASSWORD


def logins_are_nowhere(tap):
    index("simple", wheel, "hello-box")
    index("simple", source, "looker", LOOK)
    url = f"https://{USER}:{PASSWORD}@api.good.test/guarded/files/simple/"
    ran = code(of_index("login0", "https://api.good.test/guarded/files/simple/"), ["hello-box"], "")
    tap.equal(ran["verdict"], "skipped", "without a login the index gives nothing", ran)
    env = of_index("login", url)
    ran = code(env, ["hello-box", "looker"], "import hello_box, looker; print(looker.SAID)", "--verbose")
    says(tap, ran, "[True, False]\n", "with one it does; no argument and no variable of a process holds the password")
    found = run(["grep", "-rlaF", PASSWORD, env["XDG_CACHE_HOME"]])
    tap.equal((found.rc, found.out), (1, b""), "the password is nowhere in the cache", found)
    found = run(["grep", "-rlaF", "hello_box", env["XDG_CACHE_HOME"]])
    tap.equal(found.rc, 0, "(where a word of the package is)", found)
    tap.ok(PASSWORD.encode() not in ran.out + ran.err, "nor in the record", ran)
    failed = code(env, ["nosuch-pkg"], "")
    tap.equal(failed["verdict"], "skipped", "a failure behind a login", failed)
    found = run(["grep", "-rlaF", PASSWORD, env["XDG_CACHE_HOME"]])
    tap.ok(found.rc == 1 and PASSWORD.encode() not in failed.out + failed.err, "does not say it either", failed)
    ran = nsbox("code", "--with", "hello-box", "-c", "", env={**env, "PIP_INDEX_URL": f"ftp://u:{PASSWORD}@h/"})
    tap.ok(ran.rc == 125 and PASSWORD.encode() not in ran.out + ran.err, "nor does an error about the URL", ran)
    ran = nsbox("code", "--with", f"a @ https://u:{PASSWORD}@h/a.whl", "-c", "", env=env)
    tap.ok(ran.rc == 125 and PASSWORD.encode() not in ran.out + ran.err, "or about a spec", ran)


def a_netrc_has_logins_of_indexes(tap):
    index("simple", wheel, "hello-box")
    index("simple", source, "reader", "said += open(os.environ['NETRC']).read().split()[:2]\n"
          "said.append('OtherS3cret' in open(os.environ['NETRC']).read())")
    url = "https://api.good.test/guarded/files/simple/"
    folder = place("netrc")
    with open(f"{folder}/.netrc", "w", encoding="ascii") as f:
        f.write(f"machine other.test login x password OtherS3cret\nmachine api.good.test\n login {USER}\n password {PASSWORD}\n")
    ran = code({**of_index("netrc0", url), "HOME": SCRATCH}, ["hello-box"], "")
    tap.equal(ran["verdict"], "skipped", "without a .netrc the index gives nothing", ran)
    env = {**of_index("netrc", url), "HOME": folder}
    says(tap, code(env, ["hello-box", "reader"], "import hello_box, reader; print(reader.SAID)"),
         "['machine', 'api.good.test', False]\n", "~/.netrc has the login of an index, and the box has no other of it")
    os.rename(f"{folder}/.netrc", f"{folder}/logins")
    env = {**of_index("netrc2", url), "HOME": SCRATCH, "NETRC": f"{folder}/logins"}
    says(tap, code(env, ["hello-box"], "print(1)"), "1\n", "so has the file that NETRC names")
    found = run(["grep", "-rlaF", PASSWORD, env["XDG_CACHE_HOME"]])
    tap.equal((found.rc, found.out), (1, b""), "it is nowhere in the cache", found)


def a_proxy_of_the_host_is_used(tap):
    index("simple", wheel, "hello-box")
    proxy = f"http://{USER}:{PASSWORD}@{PROXY}:{HTTP_PROXY}"
    env = of_index("proxy", "https://api.good.test/files/simple/", PIP_PROXY=proxy)
    NET.clear()
    says(tap, code(env, ["hello-box"], "import hello_box; print(1)"), "1\n", "pip's proxy is gone through")
    tap.equal({(e["target"], e["known"]) for e in NET.events("proxy")}, {("api.good.test:443", True)},
              "it is told the name, and who asks")


def code_may_name_its_packages(tap):
    folder = place("wheels-inline")
    wheel(folder, "hello-box")
    wheel(folder, "other-pkg")
    env = of_folder("inline", folder)
    text = ("# /// script\n# requires-python = '>=3'\n# dependencies = [\n#   'hello-box',\n# ]\n# ///\n"
            "import hello_box; print(hello_box.WORD)\n")
    ran = code(env, [], text)
    tap.equal(ran["exit_code"], 1, "without --with-inline the block of PEP 723 is a comment", ran)
    says(tap, code(env, [], text, "--with-inline"), "hello-box\n", "with it the packages are there")
    both = code(env, ["other-pkg"], text + "import other_pkg; print(other_pkg.WORD)", "--with-inline")
    says(tap, both, "hello-box\nother-pkg\n", "and those of --with as well")
    path = os.path.join(folder, "script.py")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    ran = nsbox("code", "--interpreter", PYTHON, "--with-inline", path, env=env)
    tap.equal((ran.rc, ran.out), (0, b"hello-box\n"), "a file has such a block as well", ran)
    ran = nsbox("code", "--interpreter", PYTHON, "--with-inline", "-c", text.replace(">=3", ">=9"), env=env)
    tap.ok(ran.rc == 125 and b"the code wants Python >=9, and this one is 3." in ran.err, "requires-python is looked at", ran)
    says(tap, code(env, [], "print(1)", "--with-inline"), "1\n", "code without a block needs nothing")


# --- what fails ----------------------------------------------------------------------------

def a_failed_install_runs_nothing_and_is_remembered(tap):
    folder = place("wheels-fail")
    wheel(folder, "hello-box")
    env = of_folder("fail", folder)
    ran = code(env, ["hello-box", "late-pkg>=2"], "print('ran')")
    tap.equal((ran.rc, ran["verdict"], ran["exit_code"], ran["success"], ran["stdout"]), (122, "skipped", None, False, None),
              "D8 a package that cannot be had: the code does not run, status 122", ran)
    tap.ok(ran["reason"].startswith(FAILED + "late-pkg>=2: ") and "No matching distribution found" in ran["reason"]
           and "remembered" not in ran["reason"], "the reason names the spec and pip's words", ran["reason"])
    wheel(folder, "late-pkg", "2.0")
    again = code(env, ["hello-box", "late-pkg>=2"], "print('ran')")
    tap.ok(again["verdict"] == "skipped" and again["reason"].startswith(ran["reason"]) and
           re.search(r" \(remembered from \d+ s ago; tried again after 10 minutes\)$", again["reason"]),
           "M68 ten minutes long the failure is remembered, and nothing runs", again["reason"])
    tap.equal(again["packages"], None, "a run without its packages has none in its record", again["packages"])
    says(tap, code(env, ["hello-box"], "print('ran')"), "ran\n", "other lists are not concerned")
    root = layers(env)[0]
    for name in os.listdir(root):
        if name.endswith(".failed"):
            os.utime(os.path.join(root, name), (time.time() - 601,) * 2)
    says(tap, code(env, ["hello-box", "late-pkg>=2"], "print('ran')"), "ran\n", "then it is tried again")
    plain = nsbox("code", "--with", "never-pkg", "-c", "", env=env)
    tap.ok(plain.rc == 122 and plain.err.startswith(b"nsbox: Package installation failed: never-pkg: "),
           "people read a sentence", plain)


def what_is_no_spec_is_refused_before_anything_runs(tap):
    env = of_folder("specs", place("wheels-none"))
    for spec, words in (("", "--with wants SPEC"), ("  ", "non-empty"), ("-r x", "flag-style"), ("a\n-r x", "control character"),
                        ("a; rm -rf", "is no package spec"), (".", "is a path"), ("./x", "is a path"),
                        ("x.whl", "is a path"), ("https://e.test/x.whl", "is a URL"), ("a @ git+https://e.test/a", "is a URL")):
        ran = nsbox("code", f"--with={spec}", "-c", "print('ran')", env=env)
        tap.ok(ran.rc == 125 and not ran.out and words.encode() in ran.err, f"M61 M62 {spec!r}: {words}", ran)
    tap.ok(not os.path.exists(os.path.join(env["XDG_CACHE_HOME"], "nsbox/layers")), "nothing was made")
    ran = code(env, ["a-pkg"], "", "--set", "packages.install=true")
    tap.equal(ran["verdict"], "skipped", "packages.install is no error", ran)


def what_a_build_script_leaves_is_looked_at(tap):
    folder = place("sources-bad")
    source(folder, "fifo", "os.mkfifo('/layer/packages/x')")
    source(folder, "swap", "os.rename('/layer/packages', '/layer/old'); os.symlink('/workspace', '/layer/packages')")
    source(folder, "loose", "open('/layer/packages/s', 'w').close(); os.chmod('/layer/packages/s', 0o777)")
    source(folder, "opened", "os.mkdir('/layer/more'); open('/layer/more/x', 'w').close(); os.chmod('/layer', 0o777)")
    source(folder, "broken", "os.chmod('/nowhere', 0)")
    env = of_folder("bad", folder)
    ran = code(env, ["fifo"], "print('ran')")
    tap.equal((ran.rc, ran["reason"]), (122, FAILED + "fifo: it holds something that is no file, folder or link: x"),
              "a FIFO in a layer is refused", ran)
    ran = code(env, ["swap"], "print('ran')")
    tap.equal((ran.rc, ran["stdout"]), (122, None), "a link in the place of the layer is refused", ran)
    ran = code(env, ["loose"], "import os; print(oct(os.stat('/run/nsbox/packages/s').st_mode))")
    says(tap, ran, "0o100755\n", "the right of others to write is taken away")
    says(tap, code(env, ["opened"], "print('ran')"), "ran\n", "so is that on the folder around it")
    found = run(["find", env["XDG_CACHE_HOME"], "-name", "more", "-o", "-perm", "/022", "!", "-type", "l"])
    tap.equal((found.rc, found.out), (0, b""), "and nothing else is left of what was written", found)
    ran = code(env, ["broken"], "print('ran')")
    tap.equal((ran.rc, ran["reason"]), (122, FAILED + "broken: FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'"),
              "what a build script dies of is told", ran)


def an_install_is_bounded(tap):
    folder = place("sources-large")
    fill = ("os.makedirs('/layer/tmp/x')\n"
            "for n in range(3): open(f'/layer/tmp/x/{n}', 'wb').write(os.urandom(1 << 20))\n")
    source(folder, "large", fill + "import time; time.sleep(600)")
    source(folder, "hidden", fill + "os.chmod('/layer/tmp/x', 0); import time; time.sleep(600)")
    source(folder, "deep", "for n in range(200): os.mkdir('d'); os.chdir('d')\nimport time; time.sleep(600)")
    source(folder, "single", "with open('/layer/tmp/x', 'wb') as f: f.write(bytes(9 << 20))")
    source(folder, "quick", fill + "said.append('done')")
    env = of_folder("large", folder)
    few = ("--set", "packages.max_bytes=2M")
    for name in ("large", "hidden"):
        ran = code(env, [name], "print('ran')", *few)
        tap.ok(ran.rc == 122 and ran["verdict"] == "skipped" and ran["stdout"] is None
               and ran["reason"].startswith(f"{FAILED}{name}: the install wrote more than packages.max_bytes, 2097152 bytes, into ")
               and ran["reason"].endswith(".new; if that is what it needs: --set packages.max_bytes=4M"),
               f"an install that writes too much is ended, and says where and what to do ({name})", ran["reason"])
    ran = code(env, ["deep"], "print('ran')", *few)
    tap.ok(ran["reason"].startswith(FAILED + "deep: the install made folders that are more than 128 deep"), "so is one of too many levels", ran)
    ran = code(env, ["single"], "print('ran')", *few)
    tap.ok(ran["verdict"] == "skipped" and "packages.max_bytes" in ran["reason"],
           "a file is bounded by the kernel as well", ran["reason"])
    again = code(env, ["quick"], "print('ran')", *few)
    tap.ok("packages.max_bytes, 2097152 bytes" in again["reason"], "what was written at the very end counts", again["reason"])
    again = code(env, ["quick"], "print('ran')", *few)
    tap.ok("(remembered from " in again["reason"], "the failure is remembered", again["reason"])
    says(tap, code(env, ["quick"], "print('ran')"), "ran\n", "but not for a limit that is higher")
    tap.equal([n for n in os.listdir(layers(env)[0]) if n.endswith(".new")], [], "and nothing of them is left")


# --- one cache for many --------------------------------------------------------------------

def runs_at_once_build_it_once(tap):
    index("crowd", source, "slowly", "import time; time.sleep(1)")
    env = of_index("crowd", "http://api.good.test/files/crowd/", PIP_TRUSTED_HOST="api.good.test")
    NET.clear()
    argv = [NSBOX, "code", "--interpreter", PYTHON, "--with", "slowly", "-c", "import slowly; print(slowly.SAID)"]
    procs = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(env), cwd=SCRATCH)
             for _ in range(4)]
    ended = [(p.communicate(timeout=LIMIT), p.returncode) for p in procs]
    tap.equal([(out, rc) for (out, _), rc in ended], [(b"[]\n", 0)] * 4, "four runs at once all have it", ended)
    asked = [r["target"] for e in NET.events("http") for r in e["requests"]]
    tap.equal(asked.count("/files/crowd/slowly/slowly-1.0.tar.gz"), 1, "one of them built it", asked)


def a_half_made_layer_is_made_anew(tap):
    folder = place("wheels-half")
    wheel(folder, "hello-box")
    env = of_folder("half", folder)
    says(tap, code(env, ["hello-box"], "print(1)"), "1\n", "a layer is made")
    root, made = layers(env)
    os.rename(os.path.join(root, made[0]), os.path.join(root, made[0] + ".new"))
    os.chmod(os.path.join(root, made[0] + ".new/packages"), 0)
    says(tap, code(env, ["hello-box"], "import hello_box; print(1)"), "1\n", "what a killed launcher left is no layer")
    tap.equal(sorted(n for n in os.listdir(root) if not n.endswith(".wait")), made, "and is gone")


def a_killed_launcher_is_in_nobodys_way(tap):
    folder = place("sources-killed")
    source(folder, "slowly", "import time; time.sleep(600)")
    env = of_folder("killed", folder)
    argv = [NSBOX, "code", "--interpreter", PYTHON, "--with", "slowly", "-c", "print(1)"]
    root = os.path.join(env["XDG_CACHE_HOME"], "nsbox/layers")
    proc = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ(env), cwd=SCRATCH)
    while not (os.path.isdir(root) and any(n.endswith(".new") for n in os.listdir(root))):
        if proc.poll() is not None:
            raise AssertionError("it ended by itself")
        time.sleep(0.02)
    proc.kill()
    proc.wait()
    shutil.rmtree(folder)
    wheel(folder, "slowly")
    says(tap, code(env, ["slowly"], "import slowly; print(slowly.WORD)"), "slowly\n", "the next one installs at once")
    tap.ok(not any(n.endswith(".new") for n in os.listdir(root)), "and what was half made is gone", os.listdir(root))


def a_layer_of_others_is_not_believed(tap):
    folder = place("wheels-foreign")
    wheel(folder, "hello-box")
    env = of_folder("foreign", folder)
    says(tap, code(env, ["hello-box"], "print(1)"), "1\n", "a layer is made")
    root, made = layers(env)
    os.chmod(os.path.join(root, made[0]), 0o777)
    ran = nsbox("code", "--interpreter", PYTHON, "--with", "hello-box", "-c", "print('ran')", env=env)
    tap.ok(ran.rc == 125 and not ran.out, "one that others may write is not used", ran)
    os.chmod(os.path.join(root, made[0]), 0o700)
    os.chmod(root, 0o777)
    ran = nsbox("code", "--interpreter", PYTHON, "--with", "hello-box", "-c", "print('ran')", env=env)
    tap.ok(ran.rc == 125 and not ran.out, "nor is a folder of layers", ran)


def the_cache_is_listed_and_pruned(tap):
    folder = place("wheels-cache")
    wheel(folder, "hello-box", files={"hello_box.py": "x = '" + "y" * 100000 + "'\n"})
    wheel(folder, "other-pkg")
    env = of_folder("list", folder)
    empty = json.loads(nsbox("cache", "list", "--json", env=env).out)
    tap.equal((empty["schema"], empty["bytes"]), ("nsbox.cache/1", 0), "an empty cache is listed", empty)
    for spec in ("hello-box", "other-pkg==1.0"):
        says(tap, code(env, [spec], "print(1)"), "1\n", f"{spec} is installed")
    full = json.loads(nsbox("cache", "list", "--json", env=env).out)
    both = {layer["specs"][0]: layer for layer in full["layers"]}
    tap.equal(sorted(both), ["hello-box", "other-pkg==1.0"], "both are listed", full)
    tap.equal(both["hello-box"]["resolved"], ["hello-box==1.0"], "with what was resolved", full)
    tap.within(both["hello-box"]["bytes"], 100000, 1000000, "and their size", full)
    tap.equal(full["bytes"], sum(layer["bytes"] for layer in full["layers"]), "the sum is one")
    lines = nsbox("cache", "list", env=env).out.decode().splitlines()
    tap.ok(len(lines) == 3 and lines[-1].startswith("2 layers, ") and any(line.endswith(": other-pkg==1.0") for line in lines),
           "people read lines", lines)
    ran = nsbox("cache", "prune", env=env)
    tap.ok(ran.rc == 125 and b"--older-than" in ran.err, "prune wants to know what", ran)
    ran = nsbox("cache", "prune", "--older-than", "1d", env=env)
    tap.equal((ran.rc, ran.out), (0, b"removed 0 layers, 0 KiB\n"), "nothing is that old", ran)
    root = layers(env)[0]
    os.utime(os.path.join(root, both["other-pkg==1.0"]["id"]), (time.time() - 100000,) * 2)
    ran = json.loads(nsbox("cache", "prune", "--older-than", "1d", "--json", env=env).out)
    tap.equal(([x["specs"] for x in ran["removed"]], ran["kept"]), ([["other-pkg==1.0"]], []), "what is older goes", ran)
    user = subprocess.Popen([NSBOX, "code", "-i", "--interpreter", PYTHON, "--with", "hello-box", "-c",
                             "print('up', flush=True); input(); import hello_box; print('still')"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ(env), cwd=SCRATCH)
    user.stdout.readline()
    ran = nsbox("cache", "prune", "--all", env=env)
    tap.ok(ran.rc == 1 and b"kept: a run uses it\nremoved 0 layers, 0 KiB\n" in ran.out, "what a run uses stays", ran)
    out, _ = user.communicate(b"\n", timeout=60)
    tap.equal((out, user.returncode), (b"still\n", 0), "and the run has it until its end")
    ran = nsbox("cache", "prune", "--all", env=env)
    tap.ok(ran.rc == 0 and b"\nremoved 1 layer, " in ran.out, "then it goes", ran)
    tap.equal(os.listdir(root), [], "and nothing is left")


def a_terminal_sees_what_goes_on(tap):
    folder = place("wheels-tty")
    wheel(folder, "hello-box")
    env = of_folder("tty", folder)
    for want, name in ((True, "an install is told on a terminal"), (False, "a cached one is not")):
        outer, inner = pty.openpty()
        ran = subprocess.run([NSBOX, "code", "--interpreter", PYTHON, "--with", "hello-box", "-c", "print(1)"], stdout=subprocess.PIPE,
                             stderr=inner, stdin=subprocess.DEVNULL, env=environ(env), cwd=SCRATCH, timeout=LIMIT, check=False)
        os.write(inner, b"END")
        seen = b""
        while not seen.endswith(b"END"):
            seen += os.read(outer, 4096)
        os.close(outer)
        os.close(inner)
        tap.ok(ran.returncode == 0 and (b"nsbox: installing hello-box from " in seen) == want, name, seen)


def has_pip():
    return run([PYTHON, "-I", "-c", "import pip"]).rc == 0


if __name__ == "__main__":
    become_reaper()
    TESTS = [packages_of_a_folder_need_no_network, the_layer_is_read_only,
             a_package_beats_the_interpreters_own_but_not_the_library, pth_files_of_packages_are_run, an_index_is_asked_once, files_name_the_index_as_well,
             a_private_index_is_reached_and_nothing_else,
             an_index_on_the_loopback_is_reached_and_nothing_else_there, a_build_script_reaches_the_index_alone, logins_are_nowhere,
             a_netrc_has_logins_of_indexes,
             a_proxy_of_the_host_is_used, code_may_name_its_packages, a_failed_install_runs_nothing_and_is_remembered,
             what_is_no_spec_is_refused_before_anything_runs,
             what_a_build_script_leaves_is_looked_at, runs_at_once_build_it_once, a_half_made_layer_is_made_anew,
             a_killed_launcher_is_in_nobodys_way,
             a_layer_of_others_is_not_believed, an_install_is_bounded, the_cache_is_listed_and_pruned, a_terminal_sees_what_goes_on]
    run_tests([needs(has_pip, "python3-pip")(t) for t in TESTS])
