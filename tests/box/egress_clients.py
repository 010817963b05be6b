# as: root user rootwalls
# in: testnet
"""Programs of all kinds in a box with a network: none is told of a proxy, none is changed.

Each reaches an allowed name and fails for another; without a box it reaches both.
"""

import hashlib
import io
import os
import shutil
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import REPO, SCRATCH, box, run  # noqa: E402
from egress import CLIENT, LIBC_CLIENT, NOT_FOUND, allow, denials, inside  # noqa: E402
from host import become_reaper  # noqa: E402
from tap import needs, run_tests  # noqa: E402
from testnet import Internet  # noqa: E402

NET = Internet()
PYTHON = "/usr/bin/python3"
GOCLIENT = os.path.join(REPO, "build/tests/goclient")
FLAGS = ["--ro", NET.ca, "-e", f"SSL_CERT_FILE={NET.ca}", "-e", f"REQUESTS_CA_BUNDLE={NET.ca}",
         "-e", f"NODE_EXTRA_CA_CERTS={NET.ca}", *allow("api.good.test")]
ENV = {"SSL_CERT_FILE": NET.ca, "REQUESTS_CA_BUNDLE": NET.ca, "NODE_EXTRA_CA_CERTS": NET.ca}

URLLIB = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
REQUESTS = "import sys, requests; print(requests.get(sys.argv[1], timeout=30).text)"
ASYNCIO = """
import asyncio, ssl, sys, urllib.parse
async def main(url):
    u = urllib.parse.urlsplit(url)
    tls = ssl.create_default_context() if u.scheme == "https" else None
    r, w = await asyncio.open_connection(u.hostname, 443 if tls else 80, ssl=tls)
    w.write(f"GET / HTTP/1.1\\r\\nHost: {u.hostname}\\r\\nConnection: close\\r\\n\\r\\n".encode())
    print((await r.read()).decode())
asyncio.run(main(sys.argv[1]))
"""
FETCH = "fetch(process.argv[1]).then(r => r.text()).then(console.log, e => { console.log(e); process.exit(1) })"
DEV_TCP = ("u=${0#http://}; u=${u%/}; exec 3<>/dev/tcp/$u/80 || exit 1; "
           "printf 'GET / HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' $u >&3; cat <&3")


def installed(*paths):
    return lambda: all(os.path.exists(p) for p in paths)


def has_module(name):
    return run([PYTHON, "-c", f"import {name}"]).rc == 0


def web_client(tap, what, argv, urls=("http://{}/", "https://{}/")):
    """An allowed site by each scheme, another site by none."""
    for url in urls:
        good, evil = url.format("api.good.test"), url.format("evil.test")
        bare = run([*argv, evil], env=ENV)
        tap.ok(bare.rc == 0 and b'"served"' in bare.out, f"{what} reaches {evil} without a box", bare)
        ran = box(FLAGS, *argv, good)
        tap.ok(ran["exit_code"] == 0 and '"host": "api.good.test"' in ran["stdout"], f"{what}: {good} works", ran)
        tap.equal(denials(ran), [], f"{what}: nothing of it is denied", ran)
        ran = box(FLAGS, *argv, evil)
        tap.ok(ran["exit_code"] not in (0, None) and '"served"' not in ran["stdout"],
               f"{what}: {evil} fails by its own error", ran)
        tap.ok(("lookup evil.test", "net.allow_out (not listed)", "--allow-out evil.test") in denials(ran),
               f"{what}: and the record says why", ran)


@needs(installed("/usr/bin/curl"), "curl")
def curl(tap):
    web_client(tap, "curl", ["/usr/bin/curl", "-sS", "-m", "30", "--cacert", NET.ca])


def python_urllib(tap):
    web_client(tap, "urllib", [PYTHON, "-c", URLLIB])


@needs(lambda: has_module("requests"), "python3-requests")
def python_requests(tap):
    web_client(tap, "requests", [PYTHON, "-c", REQUESTS])


def python_asyncio(tap):
    web_client(tap, "asyncio", [PYTHON, "-c", ASYNCIO])


@needs(lambda: shutil.which("node"), "Node")
def node_fetch(tap):
    web_client(tap, "Node's fetch", [shutil.which("node"), "-e", FETCH])


@needs(installed("/bin/bash"), "bash")
def bash_dev_tcp(tap):
    web_client(tap, "/dev/tcp of bash", ["/bin/bash", "-c", DEV_TCP], urls=("http://{}/",))


def getaddrinfo_of_glibc(tap):
    ran = box(FLAGS, "/usr/bin/getent", "ahosts", "api.good.test")
    addresses = {line.split()[0] for line in ran["stdout"].splitlines()}
    tap.equal({a.split(".")[0] if "." in a else a.rsplit(":", 1)[0] for a in addresses}, {"198", "2001:2:"},
              "getaddrinfo has an address of each family for an allowed name, from the box's own ranges", ran)
    ran = box(FLAGS, "/usr/bin/getent", "ahosts", "evil.test")
    tap.equal((ran["exit_code"], ran["stdout"]), (2, ""), "and none for another", ran)
    got, ran = inside(FLAGS, "timed", "lookup evil.test", client=LIBC_CLIENT)
    tap.equal(got[0].split()[0], NOT_FOUND, "it does not exist: no failure that may pass", ran)
    tap.note(f"glibc's resolver took {got[0].split()[-1]} ms to believe it")
    ran = box(FLAGS, "/usr/bin/getent", "hosts", "localhost")
    tap.ok("localhost" in ran["stdout"], "localhost is in the box's hosts file", ran)
    NET.clear()
    box(FLAGS, "/usr/bin/getent", "ahosts", "api.good.test")
    tap.equal(NET.lookups(), [], "a lookup alone asks nobody")


def a_static_program_of_musl(tap):
    got, ran = inside(FLAGS, "get api.good.test 80 api.good.test", "connect 203.0.113.66 80", client=CLIENT)
    tap.equal(got, ["HTTP/1.1 200 OK", "errno=ECONNREFUSED"], "musl: the allowed name, and no other address", ran)
    got, ran = inside(FLAGS, "timed", "lookup evil.test", client=CLIENT)
    tap.equal(got[0].split()[0], NOT_FOUND, "musl: another name does not exist", ran)
    tap.note(f"musl's resolver took {got[0].split()[-1]} ms to believe it")


@needs(installed(GOCLIENT), "Go")
def a_program_of_go(tap):
    for args, bare, want in ((("evil.test", "80"), "HTTP/1.1 200 OK", "error"),
                             (("api.good.test", "80"), "HTTP/1.1 200 OK", "HTTP/1.1 200 OK"),
                             (("raw", "203.0.113.66", "80"), "ok", "errno=111"),
                             (("raw", "10.1.2.3", "80"), "ok", "errno=111")):
        outside = run([GOCLIENT, *args])
        tap.equal(outside.text(), bare, f"Go: {' '.join(args)} without a box", outside)
        ran = box(["--ro", f"{GOCLIENT}:/go", *FLAGS], "/go", *args)
        tap.ok(ran["stdout"].startswith(want), f"Go, no libc and raw calls: {' '.join(args)} is {want}", ran)


@needs(installed("/usr/bin/dig"), "bind9-dnsutils")
def dig(tap):
    def ask(*args):
        ran = box(FLAGS, "/usr/bin/dig", "+tries=1", "+time=10", *args)
        status = ran["stdout"].partition("status: ")[2].partition(",")[0]
        return status, ran

    for transport in ("+notcp", "+tcp"):
        status, ran = ask(transport, "api.good.test")
        tap.ok(status == "NOERROR" and "198.18." in ran["stdout"], f"dig {transport}: an allowed name", ran)
        status, ran = ask(transport, "evil.test")
        tap.equal(status, "NXDOMAIN", f"dig {transport}: another name does not exist", ran)
        tap.ok("15 (Blocked)" in ran["stdout"] and "AUTHORITY: 0" in ran["stdout"],
               f"dig {transport}: the extended error says why, and nothing says how long that holds", ran)
        status, ran = ask(transport, "+noedns", "evil.test")
        tap.equal((status, "Blocked" in ran["stdout"]), ("NXDOMAIN", False), f"dig {transport}: without EDNS as well", ran)
    status, ran = ask("-x", "203.0.113.66")
    tap.equal(status, "NXDOMAIN", "dig -x: a foreign address has no name", ran)
    status, ran = ask("api.good.test", "HTTPS")
    tap.equal((status, "Blocked" in ran["stdout"]), ("REFUSED", False), "dig: a question that would lead past the rules", ran)
    status, ran = ask("api.good.test", "AAAA")
    tap.ok(status == "NOERROR" and "2001:2:" in ran["stdout"], "dig: IPv6", ran)
    NET.clear()
    for server in ("203.0.113.53", "8.8.8.8"):
        for transport in ("+notcp", "+tcp"):
            status, ran = ask(transport, f"@{server}", "exfil.evil.test")
            tap.equal(status, "NXDOMAIN", f"E29 dig {transport} @{server}: the box's own server answers", ran)
    for kind in ("TXT", "NULL", "MX", "HTTPS", "ANY", "SRV"):
        status, ran = ask("exfil.evil.test", kind)
        tap.equal(status, "NXDOMAIN", f"E29 dig {kind}: no such name", ran)
        status, ran = ask("api.good.test", kind)
        tap.ok("ANSWER: 0" in ran["stdout"] or status in ("REFUSED", "NOTIMP") or
               (kind == "ANY" and "198.18." in ran["stdout"]), f"E33 dig {kind} of an allowed name has no answer", ran)
    tap.equal(NET.events("dns"), [], "E29 and no question leaves the host")
    bare = run(["/usr/bin/dig", "+tries=1", "+short", "@203.0.113.53", "evil.test"])
    tap.ok("203.0.113.66" in bare.text() and NET.lookups("evil.test") == 1,
           "E29 without a box the same question arrives there", bare)


@needs(installed("/usr/bin/git"), "git")
def git_clone(tap):
    work, bare_repo = os.path.join(SCRATCH, "repo"), os.path.join(NET.files, "repo.git")
    for path in (work, bare_repo):
        shutil.rmtree(path, ignore_errors=True)
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main"]
    for step in (["init", "-q", work], ["-C", work, "commit", "-q", "--allow-empty", "-m", "first"],
                 ["clone", "-q", "--bare", work, bare_repo], ["-C", bare_repo, "update-server-info"]):
        done = run([*git, *step])
        assert done.rc == 0, done
    clone = ["/usr/bin/git", "clone", "-q"]
    ran = box(FLAGS, "sh", "-c", f"{' '.join(clone)} http://api.good.test/files/repo.git c && git -C c log --format=%s")
    tap.equal((ran["exit_code"], ran["stdout"]), (0, "first\n"), "git clones over HTTP", ran)
    bare = run([*clone, "http://evil.test/files/repo.git", os.path.join(SCRATCH, "evil-clone")])
    tap.equal(bare.rc, 0, "git reaches another site without a box", bare)
    shutil.rmtree(os.path.join(SCRATCH, "evil-clone"), ignore_errors=True)
    ran = box(FLAGS, *clone, "http://evil.test/files/repo.git", "c")
    tap.ok(ran["exit_code"] == 128 and "evil.test" in ran["stderr"], "git: and says what it could not reach", ran)


def deb_member(name, data):
    return (f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data +
            (b"\n" if len(data) % 2 else b""))


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def make_apt_repo(folder):
    """A repository of one package: a Packages file beside it is enough for apt."""
    control = "Package: hello-box\nVersion: 1.0\nArchitecture: all\nMaintainer: n <n@example.org>\nDescription: t\n"
    deb = (b"!<arch>\n" + deb_member("debian-binary", b"2.0\n") +
           deb_member("control.tar.gz", tar_of({"./control": control.encode()})) +
           deb_member("data.tar.gz", tar_of({"./usr/share/hello-box": b"hi\n"})))
    os.makedirs(folder, exist_ok=True)
    for name, data in (("hello-box.deb", deb), ("Packages", (control + f"Filename: ./hello-box.deb\nSize: {len(deb)}\n"
                        f"SHA256: {hashlib.sha256(deb).hexdigest()}\n").encode())):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)


@needs(installed("/usr/bin/apt-get"), "apt")
def apt_get(tap):
    make_apt_repo(os.path.join(NET.files, "apt"))
    script = ("d=$PWD/$1; mkdir -p $d/lists/partial $d/cache/archives/partial $d/etc; : >$d/status; "
              "echo \"deb [trusted=yes] http://$1/files/apt ./\" >$d/etc/list; "
              "o=\"-o Dir::Etc=$d/etc -o Dir::Etc::SourceList=$d/etc/list -o Dir::Etc::SourceParts=- "
              "-o Dir::State=$d -o Dir::State::Lists=$d/lists -o Dir::State::status=$d/status "
              "-o Dir::Cache=$d/cache -o APT::Sandbox::User= -o Acquire::Retries=0 -o Acquire::http::Timeout=20\"; "
              "apt-get $o update -q -o APT::Update::Error-Mode=any && cd $d && apt-get $o download -q hello-box && ls *.deb")
    place = os.path.join(SCRATCH, "apt")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    bare = run(["sh", "-c", script, "sh", "evil.test"], cwd=place)
    tap.ok(bare.rc == 0 and b"hello-box_1.0_all.deb" in bare.out, "apt-get takes a package from any site without a box",
           f"{bare}\n{bare.out.decode()}{bare.err.decode()}")
    ran = box(FLAGS, "sh", "-c", script, "sh", "api.good.test")
    tap.ok(ran["exit_code"] == 0 and "hello-box_1.0_all.deb" in ran["stdout"], "apt-get updates and downloads", ran)
    ran = box(FLAGS, "sh", "-c", script, "sh", "evil.test")
    tap.ok(ran["exit_code"] != 0 and "hello-box_1.0_all.deb" not in ran["stdout"], "apt-get: from another site it does not",
           ran)


def make_index(folder):
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("hello_box.py", "WORD = 'hi'\n")
        z.writestr("hello_box-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello-box\nVersion: 1.0\n")
        z.writestr("hello_box-1.0.dist-info/WHEEL",
                   "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("hello_box-1.0.dist-info/RECORD", "")
    name = "hello_box-1.0-py3-none-any.whl"
    place = os.path.join(folder, "hello-box")
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, name), "wb") as f:
        f.write(wheel.getvalue())
    with open(os.path.join(place, "index.html"), "w", encoding="ascii") as f:
        f.write(f"<!DOCTYPE html><html><body><a href=\"{name}\">{name}</a></body></html>")


@needs(lambda: has_module("pip"), "python3-pip")
def pip(tap):
    make_index(os.path.join(NET.files, "simple"))
    place = os.path.join(SCRATCH, "pip")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)

    def install(site, folder):
        return [PYTHON, "-m", "pip", "install", "-q", "--retries", "0", "--no-cache-dir", "--no-deps",
                "--disable-pip-version-check", "--no-warn-script-location", "--index-url",
                f"https://{site}/files/simple/", "--cert", NET.ca, "--target", folder, "hello-box"]

    bare = run(install("evil.test", os.path.join(place, "bare")), env=ENV)
    tap.equal(bare.rc, 0, "pip installs from any index without a box", bare)
    ran = box(FLAGS, "sh", "-c", " ".join(install("api.good.test", "t")) +
              f" && PYTHONPATH=t {PYTHON} -c 'import hello_box; print(hello_box.WORD)'")
    tap.equal((ran["exit_code"], ran["stdout"]), (0, "hi\n"), "pip installs from an allowed index", ran)
    ran = box(FLAGS, *install("evil.test", "t"))
    tap.ok(ran["exit_code"] not in (0, None), "pip: and not from another", ran)


def policies_as_bud_has_them(tap):
    """NetworkPolicy: the object is a policy file."""
    path = os.path.join(SCRATCH, "bud.json")
    with open(path, "w", encoding="ascii") as f:
        f.write('{"network_policy": {"type": "filtered", "allow_out": ["api.good.test"], "deny_out": ["ALL_TRAFFIC"]}}')
    got, ran = inside(["-p", path], "connect api.good.test 80", "connect 203.0.113.66 80")
    tap.equal(got, ["ok", "errno=ECONNREFUSED"], "B13 Bud's NetworkPolicy: allowed beats ALL_TRAFFIC denied", ran)
    with open(path, "w", encoding="ascii") as f:
        f.write('{"net": {"mode": "filtered", "allow_out": [%s]}}' %
                ", ".join(f'"n{i}.many.test", "198.51.{i % 100}.{i // 100}"' for i in range(5000)))
    got, ran = inside(["-p", path], "get n4999.many.test 80 n4999.many.test", "connect 203.0.113.66 80")
    tap.equal(got, ["HTTP/1.1 200 OK", "errno=ECONNREFUSED"], "10,000 entries in a policy file", ran)
    tap.note(f"with 10,000 entries the box was ready after {ran['usage'].get('setup_ms', ran['setup_ms'])} ms")


if __name__ == "__main__":
    become_reaper()
    run_tests([curl, python_urllib, python_requests, python_asyncio, node_fetch, bash_dev_tcp, getaddrinfo_of_glibc,
               a_static_program_of_musl, a_program_of_go, dig, git_clone, apt_get, pip, policies_as_bud_has_them])
