# as: user
# in: testnet
"""Packages of npm: `--language javascript --with SPEC`. The registries are servers of this suite on the loopback."""

import base64
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../harness"))
from box import NSBOX, SCRATCH, environ, nsbox, parse_record, run  # noqa: E402
from host import become_reaper  # noqa: E402
from netservers import HTTP_PROXY, PASSWORD, USER  # noqa: E402
from tap import needs, run_tests  # noqa: E402
from testnet import PROXY, Internet  # noqa: E402

NET = Internet()
LIMIT = 300
FAILED = "packages_failed: Package installation failed: "
TOKEN = "npm_S3cretTokenOfTheTest"


# --- packages and registries ---------------------------------------------------------

class Registry:
    """A registry of packages ({name: {version: (bytes, manifest)}}) on a port of 127.0.0.1."""

    def __init__(self, token=None):
        self.packages, self.asked, self.token = {}, [], token
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802
                outer.asked.append(self.path)
                status, body = outer.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None     # a box that ends cuts its connections
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/r/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path, login):
        if self.token and login != f"Bearer {self.token}":
            return 401, b'{"error":"who are you?"}'
        name, _, version = urllib.parse.unquote(path.removeprefix("/r/")).partition("/-/")
        versions = self.packages.get(name)
        if versions is None:
            return 404, b'{"error":"Not found"}'
        if version:
            return 200, versions[version.removesuffix(".tgz")][0]
        return 200, json.dumps({"name": name, "dist-tags": {"latest": list(versions)[-1]},
                                "versions": {v: m for v, (_, m) in versions.items()}}).encode()

    def add(self, name, version="1.0.0", files=None, **manifest):
        manifest = {"name": name, "version": version, **manifest}
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as tar:
            for path, text in {"package.json": json.dumps(manifest), "index.js": f"module.exports = {version!r};\n",
                               **(files or {})}.items():
                item = tarfile.TarInfo("package/" + path)
                item.size, item.mode = len(text), 0o755
                tar.addfile(item, io.BytesIO(text.encode()))
        digest = "sha512-" + base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()
        self.packages.setdefault(name, {})[version] = (data.getvalue(), {
            **manifest, "dist": {"tarball": f"{self.url}{name}/-/{version}.tgz", "integrity": digest}})


def place(name):
    folder = os.path.join(SCRATCH, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def home(name, npmrc):
    """An empty home and cache with this .npmrc, as environment."""
    folder = place(f"npm-{name}")
    with open(f"{folder}/.npmrc", "w", encoding="ascii") as f:
        f.write("fetch-retries=0\n" + npmrc)
    return {"HOME": folder, "XDG_CACHE_HOME": f"{folder}/cache", "npm_config_globalconfig": f"{folder}/none"}


def layer_of(env):
    root = os.path.join(env["XDG_CACHE_HOME"], "nsbox/layers")
    return [os.path.join(root, n) for n in sorted(os.listdir(root)) if re.fullmatch("[0-9a-f]{64}", n)]


def code(env, specs, text, *flags):
    args = [w for s in specs for w in ("--with", s)]
    ran = nsbox("code", "--json", "--language", "javascript", *args, *flags, "-c", text, env=env, limit=LIMIT)
    ran.record = parse_record(ran)
    return ran


def says(tap, ran, text, name):
    return tap.equal((ran["verdict"], ran["exit_code"], ran["stdout"]), ("exited", 0, text), name, ran)


# --- what works ----------------------------------------------------------------------

def packages_are_found_by_every_kind_of_code(tap):
    reg = Registry()
    reg.add("leaf-pkg", "1.0.0")
    reg.add("leaf-pkg", "2.0.0")
    reg.add("hello-box", "1.2.0", {"index.js": "module.exports = 'hello ' + require('leaf-pkg');\n",
                                   "cli.js": "#!/usr/bin/env node\nconsole.log(require('.'));\n"},
            dependencies={"leaf-pkg": "^1.0.0"}, bin={"say-hello": "cli.js"})
    reg.add("@team/esm", files={"index.mjs": "export const word = 'esm';\n"}, exports="./index.mjs")
    env = home("find", f"registry={reg.url}\n")
    specs = [" hello-box@^1.0.0 ", "@team/esm", "leaf-pkg@2"]
    ran = code(env, specs, "console.log(require('hello-box'), require('leaf-pkg'), require.resolve('leaf-pkg'));")
    says(tap, ran, "hello 1.0.0 2.0.0 /node_modules/leaf-pkg/index.js\n", "require() finds packages, each its own dependencies")
    asked = len(reg.asked)
    ran = code(env, specs[::-1], "import { word } from '@team/esm'; import hello from 'hello-box'; console.log(word, hello);")
    says(tap, ran, "esm hello 1.0.0\n", "import finds them")
    says(tap, code(env, specs, "import('@team/esm').then((m) => console.log(m.word));"), "esm\n", "so does import()")
    ran = code(env, specs, "const { execSync } = require('child_process'); const fs = require('fs');\n"
               "fs.writeFileSync('x.mjs', 'import h from \"hello-box\"; console.log(h)');\n"
               "console.log(String(execSync('node x.mjs; say-hello')).trim());")
    says(tap, ran, "hello 1.0.0\nhello 1.0.0\n", "so do a module that it starts and the programs of packages")
    path = os.path.join(place("npm-file"), "main.mjs")
    with open(path, "w", encoding="ascii") as f:
        f.write("import hello from 'hello-box'; console.log(hello);\n")
    ran = nsbox("code", *[w for s in specs for w in ("--with", s)], path, env=env)
    tap.equal((ran.rc, ran.out), (0, b"hello 1.0.0\n"), "so does a file that is a module", ran)
    ran = code(env, specs, "require('fs').writeFileSync('/node_modules/x', '')")
    tap.ok(ran["exit_code"] == 1 and "EROFS" in ran["stderr"], "they are read-only", ran)
    for text in ("console.log(require('hello-box'))", "import h from 'hello-box'; console.log(h)"):
        ran = code(env, specs, text, "--tier", "local_unsafe")
        says(tap, ran, "hello 1.0.0\n", f"without a box as well: {text[:6]}")
    tap.equal(len(reg.asked), asked, "all of it from one layer, which needs no registry any more")
    tap.equal(len(layer_of(env)), 1, "there is one")
    with open(f"{layer_of(env)[0]}/lock", encoding="ascii") as f:
        lock = f.read()
    line = " --integrity=sha512-[A-Za-z0-9+/=]{88}\n"
    tap.ok(re.fullmatch(line.join([r"@team/esm@1\.0\.0", r"hello-box@1\.2\.0", r"leaf-pkg@1\.0\.0", r"leaf-pkg@2\.0\.0", ""]), lock),
           "the lock says what was resolved, with digests", lock)
    tap.equal([(p["name"], p["version"], p["hash"][:7]) for p in ran["packages"]["resolved"]],
              [("@team/esm", "1.0.0", "sha512-"), ("hello-box", "1.2.0", "sha512-"), ("leaf-pkg", "1.0.0", "sha512-"),
               ("leaf-pkg", "2.0.0", "sha512-")], "so does the record", ran["packages"])
    shown = json.loads(nsbox("cache", "list", "--json", env=env).out)["layers"][0]
    tap.equal((shown["language"], shown["resolved"][0], shown["specs"]),
              ("javascript", "@team/esm@1.0.0", ["@team/esm", "hello-box@^1.0.0", "leaf-pkg@2"]), "the cache lists it", shown)


def kernels_find_them(tap):
    reg = Registry()
    reg.add("hello-box", files={"index.js": "exports.word = 'hello';\n"})
    reg.add("esm-box", files={"index.mjs": "export const word = 'esm';\n"}, exports="./index.mjs")
    env = home("kernel", f"registry={reg.url}\n")
    client = (f"import nsbox\nREGISTRY = {reg.url!r}\n"
              "with nsbox.Sandbox(packages=['hello-box', 'esm-box@1']) as box:\n"
              "    kernel = box.open('javascript', on_progress=lambda line: print(line.replace(REGISTRY, '-')))\n"
              "    print(kernel.execute(\"require('hello-box').word\").value)\n"
              "    print(kernel.execute(\"import { word } from 'esm-box'; word\").value)\n"
              "    ran = box.code(\"console.log(require('hello-box').word)\", 'javascript', on_progress=print)\n"
              "    print(ran.stdout, ran.packages.installer, [p.name for p in ran.packages.resolved])\n")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/python")
    ran = run([sys.executable, "-c", client], env={**env, "PYTHONPATH": path, "NSBOX_BIN": NSBOX}, limit=LIMIT)
    tap.equal((ran.rc, ran.out), (0, b"installing esm-box@1, hello-box from -\nhello\nesm\nhello\n npm ['esm-box', 'hello-box']\n"), "a kernel and a run of the Python client have them, and the install is told, once", ran)


def logins_go_to_their_registry_and_nowhere_else(tap):
    team, main = Registry(TOKEN), Registry()
    team.add("@team/secret-pkg")
    main.add("hello-box")
    npmrc = (f"registry={main.url}\n@team:registry={team.url}\n"
             f"//127.0.0.1:{team.port}/r/:_authToken=${{TEAM_TOKEN}}\n//elsewhere.test/:_authToken=OtherSecret\n")
    env = {**home("login", npmrc), "TEAM_TOKEN": TOKEN}
    says(tap, code(env, ["@team/secret-pkg", "hello-box"], "console.log(require('@team/secret-pkg'))"), "1.0.0\n",
         "a scope's registry and its token are honoured")
    left = run(["grep", "-rlE", f"{TOKEN}|OtherSecret", env["XDG_CACHE_HOME"]])
    tap.equal((left.rc, left.out), (1, b""), "the token is nowhere in the cache", left)
    ran = code({**env, "TEAM_TOKEN": "Wr0ngTokenOfTheTest", "XDG_CACHE_HOME": env["XDG_CACHE_HOME"] + "2"}, ["@team/secret-pkg"], "1")
    tap.ok(ran["verdict"] == "skipped" and "Unauthorized" in ran["reason"] and "Wr0ng" not in ran["reason"], "a wrong one is refused there", ran)
    pair = base64.b64encode(b"me:" + TOKEN.encode()).decode()
    env = {**home("login2", ""), "npm_config_registry": team.url.replace("//", f"//me:{TOKEN}@")}
    team.token = None
    ran = code(env, ["@team/secret-pkg"], "console.log(1)")
    says(tap, ran, "1\n", "a login may be in the registry's address")
    left = run(["grep", "-rlE", f"{TOKEN}|{pair}", env["XDG_CACHE_HOME"]])
    tap.equal((left.rc, left.out), (1, b""), "which is not kept either", left)


CURIOUS = r"""
const fs = require('fs'), net = require('net'), http = require('http');
const said = { cwd: process.cwd().startsWith('/layer/packages/'), found: [] };
const look = (file) => { try { if (fs.readFileSync(file, 'latin1').includes('npm_S3' + 'cret')) said.found.push(file); } catch {} };
const walk = (dir) => { for (const e of fs.readdirSync(dir, { withFileTypes: true })) {
    const file = dir + '/' + e.name;
    if (e.isDirectory()) { try { walk(file); } catch {} } else look(file);
} };
for (const dir of ['/tmp', '/run/nsbox', '/layer/tmp', '/workspace']) try { walk(dir); } catch {}
for (const pid of fs.readdirSync('/proc')) for (const n of ['environ', 'cmdline']) look(`/proc/${pid}/${n}`);
try { fs.writeFileSync(process.env.OUTSIDE || '/var/tmp/npm-was-here', 'x'); said.outside = fs.existsSync('/host'); } catch (e) { said.outside = e.code; }
const ask = (host, port, then) => http.get({ host, port, path: '/r/hello-box' },
    (r) => { r.resume(); then(r.statusCode); }).on('error', () => then('refused'));
ask('127.0.0.1', PORT, (a) => ask('127.0.0.1', OTHER, (b) => ask('127-0-0-1.loopback.nsbox.internal', OTHER, (c) => {
    said.registry = a; said.other = [b, c];
    fs.writeFileSync('said.json', JSON.stringify(said));
})));
"""


def install_scripts_run_in_a_box_without_logins(tap):
    reg, other = Registry(TOKEN), Registry()
    reg.add("hello-box")
    other.add("hello-box")
    act = CURIOUS.replace("PORT", str(reg.port)).replace("OTHER", str(other.port))
    reg.add("curious", files={"act.js": act}, scripts={"postinstall": "node act.js"})
    reg.add("broken", scripts={"install": "echo will-not-do >&2; exit 7"})
    npmrc = f"registry={reg.url}\n//127.0.0.1:{reg.port}/r/:_authToken={TOKEN}\n"
    env = home("scripts", npmrc)
    with socket.create_connection(("127.0.0.1", other.port), 10):
        pass
    says(tap, code(env, ["curious"], "const s = require('curious/said.json');\n"
                   "console.log(s.cwd, JSON.stringify(s.found), s.registry, String(s.other));"), "true [] 401 refused,refused\n",
         "an install script runs in the layer, finds no login, and reaches the registry alone, without one")
    tap.ok(not os.path.exists("/var/tmp/npm-was-here"), "what it writes outside is not outside")
    ran = code(env, ["broken"], "1")
    tap.ok(ran.rc == 122 and ran["verdict"] == "skipped" and ran["reason"].startswith(FAILED + "broken: ")
           and "will-not-do" in ran["reason"], "a script that fails is a failed install", ran["reason"])
    env = home("no-scripts", npmrc + "ignore-scripts=true\n")
    says(tap, code(env, ["curious", "broken"], "console.log(require('fs').existsSync('/node_modules/curious/said.json'))"), "false\n",
         "npm's setting ignore-scripts is honoured")


def settings_come_from_files_and_variables(tap):
    wrong, right = Registry(), Registry()
    right.add("hello-box")
    env = home("files", f"registry={wrong.url}\n")
    env["NPM_CONFIG_REGISTRY"] = right.url
    says(tap, code(env, ["hello-box"], "console.log(1)"), "1\n", "a variable comes before .npmrc")
    folder = place("npm-user")
    with open(f"{folder}/rc", "w", encoding="ascii") as f:
        f.write(f"; mine\nregistry = \"{right.url}\"\n")
    env = {**home("files2", f"registry={wrong.url}\n"), "npm_config_userconfig": f"{folder}/rc"}
    says(tap, code(env, ["hello-box"], "console.log(1)"), "1\n", "userconfig names another file")
    with open(f"{folder}/.npmrc", "w", encoding="ascii") as f:
        f.write(f"registry={wrong.url}\n")
    env = home("files3", f"registry={right.url}\n")
    ran = run([NSBOX, "code", "--language", "javascript", "--with", "hello-box", "-c", "console.log(1)"], env=env, cwd=folder, limit=LIMIT)
    tap.equal((ran.rc, ran.out, wrong.asked), (0, b"1\n", []), "a project's .npmrc, which came with the code, is not read", ran)
    NET.clear()
    env = {**home("files4", "registry=http://good.test:4873/r/\n"), "HTTP_PROXY": f"http://{PROXY}:3128", "npm_config_proxy": ""}
    ran = code(env, ["hello-box"], "1")
    tap.ok(ran["verdict"] == "skipped" and NET.lookups() in (["good.test"], []), "no name but the registry's is looked up", ran)


def a_registry_behind_tls_and_a_proxy(tap):
    reg = Registry()
    reg.add("hello-box")
    data, manifest = reg.packages["hello-box"]["1.0.0"]
    url = "https://api.good.test/files/"
    manifest["dist"]["tarball"] = f"{url}npm-archives/hello.tgz"
    os.makedirs(f"{NET.files}/npm-archives", exist_ok=True)
    os.makedirs(f"{NET.files}/npm", exist_ok=True)
    with open(f"{NET.files}/npm-archives/hello.tgz", "wb") as f:
        f.write(data)
    with open(f"{NET.files}/npm/hello-box", "w", encoding="ascii") as f:
        f.write(reg.answer("/r/hello-box", None)[1].decode())
    npmrc = f"registry={url}npm/\n"
    ran = code(home("tls0", npmrc), ["hello-box"], "1")
    tap.ok(ran["verdict"] == "skipped" and "certificate" in ran["reason"], "a certificate of an unknown CA is refused", ran)
    NET.clear()
    says(tap, code(home("tls", npmrc + f"cafile={NET.ca}\n"), ["hello-box"], "console.log(1)"), "1\n", "npm's cafile is honoured")
    tap.equal(NET.lookups(), ["api.good.test"], "no other name was looked up")
    env = {**home("tls2", npmrc), "NODE_EXTRA_CA_CERTS": NET.ca}
    says(tap, code(env, ["hello-box"], "console.log(1)"), "1\n", "so is node's own variable")
    with open(NET.ca, encoding="ascii") as f:
        lines = "\\n".join(f.read().strip().split("\n"))
    proxy = f"https-proxy=http://{USER}:{PASSWORD}@{PROXY}:{HTTP_PROXY}\n"
    NET.clear()
    env = home("tls3", npmrc + f'ca="{lines}"\n' + proxy)
    says(tap, code(env, ["hello-box"], "console.log(1)"), "1\n", "and certificates in .npmrc; npm's proxy is gone through")
    tap.equal({(e["target"], e["known"]) for e in NET.events("proxy")}, {("api.good.test:443", True)}, "which is told the name, and who asks")
    left = run(["grep", "-rl", PASSWORD, env["XDG_CACHE_HOME"]])
    tap.equal((left.rc, left.out), (1, b""), "and its password is not kept", left)


def a_host_that_no_setting_names_is_refused(tap):
    reg, other = Registry(), Registry()
    other.add("hello-box")
    reg.packages = other.packages
    ran = code(home("tarball", f"registry={reg.url}\n"), ["hello-box"], "1")
    tap.ok(ran["verdict"] == "skipped" and ran["reason"].startswith(FAILED + "hello-box: ") and not other.asked,
           "a tarball on another host is not fetched", ran)
    says(tap, code(home("tarball2", f"registry={reg.url}\n@files:registry={other.url}\n"), ["hello-box"], "console.log(1)"), "1\n",
         "it is when a setting names that host as well")


# --- what fails ----------------------------------------------------------------------

def a_failed_install_runs_nothing_and_is_remembered(tap):
    reg = Registry()
    reg.add("hello-box")
    env = home("fail", f"registry={reg.url}\n")
    ran = code(env, ["hello-box", "late-pkg@2"], "console.log('ran')")
    tap.equal((ran.rc, ran["verdict"], ran["exit_code"], ran["stdout"]), (122, "skipped", None, None),
              "D8 a package that cannot be had: the code does not run", ran)
    tap.ok(ran["reason"].startswith(FAILED + "late-pkg@2: ") and "Not Found" in ran["reason"], "the reason names the spec", ran["reason"])
    reg.add("late-pkg", "2.0.0")
    again = code(env, ["hello-box", "late-pkg@2"], "console.log('ran')")
    tap.ok(re.search(r" \(remembered from \d+ s ago; tried again after 10 minutes\)$", again["reason"]), "it is remembered", again)
    ran = code(env, ["hello-box@>=7"], "1")
    tap.ok(ran["reason"].startswith(FAILED + "hello-box@>=7: No matching version found"), "so is a version that is none", ran["reason"])


def what_is_no_spec_is_refused_before_anything_runs(tap):
    env = home("specs", "")
    for spec, words in (("-g", "flag-style"), ("a\nb", "control character"), ("./a", "is a path"), ("user/repo", "is a path"),
                        ("a@npm:b", "is an alias"), ("a@file:../b", "a URL, a git repository or a path"), ("a@workspace:*", "a URL, a git"),
                        ("a @ https://e.test/a.tgz", "is a URL"), ("a.tgz", "is a path"), ("a>=1", "is no package spec of npm")):
        ran = nsbox("code", "--language", "javascript", f"--with={spec}", "-c", "console.log('ran')", env=env)
        tap.ok(ran.rc == 125 and not ran.out and words.encode() in ran.err, f"{spec!r}: {words}", ran)
    ran = nsbox("code", "--language", "python", "--with", "@team/esm", "-c", "print('ran')", env=env)
    tap.ok(ran.rc == 125 and not ran.out and b"packages.list: " in ran.err, "a spec of npm is none for Python", ran)
    ran = nsbox("code", "--language", "javascript", "--with-inline", "-c", "1", env=env)
    tap.ok(ran.rc == 125 and b"--with-inline) is for python alone" in ran.err, "--with-inline says that it is for Python", ran)
    ran = nsbox("code", "--language", "bash", "--with", "hello-box", "-c", ":", env=env)
    tap.ok(ran.rc == 125 and b"packages.list is not for bash" in ran.err, "bash has no packages", ran)
    tap.ok(not layer_files(env), "nothing was made", env)


def layer_files(env):
    root = os.path.join(env["XDG_CACHE_HOME"], "nsbox/layers")
    return os.listdir(root) if os.path.isdir(root) else []


def runs_at_once_build_it_once(tap):
    reg = Registry()
    reg.add("slowly", scripts={"postinstall": "sleep 1"})
    env = home("crowd", f"registry={reg.url}\n")
    argv = [NSBOX, "code", "--language", "javascript", "--with", "slowly", "-c", "console.log(require('slowly'))"]
    procs = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(env), cwd=SCRATCH) for _ in range(3)]
    ended = [(p.communicate(timeout=LIMIT), p.returncode) for p in procs]
    tap.equal([(out, rc) for (out, _), rc in ended], [(b"1.0.0\n", 0)] * 3, "three runs at once all have it", ended)
    tap.equal(reg.asked.count("/r/slowly/-/1.0.0.tgz"), 1, "one of them built it", reg.asked)


def has_npm():
    return shutil.which("npm") is not None and shutil.which("node") is not None


if __name__ == "__main__":
    become_reaper()
    TESTS = [packages_are_found_by_every_kind_of_code, kernels_find_them, logins_go_to_their_registry_and_nowhere_else,
             install_scripts_run_in_a_box_without_logins, settings_come_from_files_and_variables,
             a_registry_behind_tls_and_a_proxy, a_host_that_no_setting_names_is_refused, a_failed_install_runs_nothing_and_is_remembered,
             what_is_no_spec_is_refused_before_anything_runs, runs_at_once_build_it_once]
    run_tests([needs(has_npm, "npm")(t) for t in TESTS])
