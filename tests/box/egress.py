# as: root user
# in: testnet
"""The way of the data: slow and dead upstreams, aliases, half-closed and large streams,
crowds, caps and counters, proxies of the host, published ports, new rules for a box that
runs, and the end of the process that serves it.
"""

import contextlib
import ctypes as c
import json
import os
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, box, environ, run  # noqa: E402
from ctypes_embed import LOCAL, Box, Error, lib  # noqa: E402
from egress import REFUSED, allow, both, denials, has_denial, host_counters, inside, outside  # noqa: E402
from host import Snapshot, become_reaper, leftovers, parents  # noqa: E402
from tap import SLOWNESS, run_tests  # noqa: E402
from testnet import Internet  # noqa: E402
from netservers import PASSWORD, USER  # noqa: E402
from netzones import SLOW_SECONDS  # noqa: E402

NET = Internet()
GOOD = "api.good.test"
PYTHON = "/usr/bin/python3"
GIB, MB = 1 << 30, 1000 * 1000
UNREACHABLE = "errno=EHOSTUNREACH"
IO_FD = 2              # NSBOX_IO_FD


# --- upstream --------------------------------------------------------------------------

def names_of_every_kind(tap):
    ran = both(tap, allow("*.good.test"), [
        ("connect alias.good.test 80", "ok", "ok"),
        ("connect short.good.test 80", "ok", "ok"),
        ("connect v4only.good.test 80", "ok", "ok"),
        ("connect v6only.good.test 80", "ok", "ok"),
        ("connect trunc.good.test 80", "ok", "ok"),
        ("connect inhosts.good.test 80", "ok", "ok"),
        ("connect api.good.test 443", "ok", "ok"),
    ], "names")
    tap.equal((ran["network"]["failed"], denials(ran)), (0, []), "and nothing of it failed or was denied", ran)
    got, ran = inside(allow("*.good.test", "api.good.test:81"), *(f"connect {n}.good.test 80" for n in (
        "nx", "empty", "servfail", "refused", "loop", "self", "long")), f"connect {GOOD} 81")
    want = [UNREACHABLE] * 7 + [REFUSED]
    tap.equal(got, want, "no such name, no address, failures, alias loops and 17 aliases: no route to it; "
              "a closed port: refused", ran)
    # The client tries the address of each family.
    tap.equal((ran["network"]["connections"], ran["network"]["failed"], denials(ran)), (16, 16, []),
              "all of them failed and none was denied", ran)
    NET.clear()
    inside(allow("v6only.good.test"), "get v6only.good.test 80 v6only.good.test")
    tap.equal([e["to"] for e in NET.events("http")], ["2001:db8:1::10"], "a server of IPv6 alone is reached over IPv6")


def slow_and_dead_hold_up_nobody(tap):
    script = ("import socket, sys, threading, errno, time\n"
              "def go(name, limit):\n"
              "    try: socket.create_connection((name, 80), limit).close(); said = 'ok'\n"
              "    except TimeoutError: said = 'timeout'\n"
              "    except OSError as e: said = errno.errorcode.get(e.errno, str(e))\n"
              "    sys.stdout.write(name.split('.')[0] + ' ' + said + '\\n'); sys.stdout.flush()\n"
              "late = [threading.Thread(target=go, args=a) for a in\n"
              "        (('slow.good.test', 60), ('dead.good.test', 4), ('deadhost.good.test', 4))]\n"
              "for t in late: t.start()\n"
              "def waiting(): return sum(line.split()[3] == '02' for f in ('tcp', 'tcp6')\n"
              "                          for line in open('/proc/net/' + f))\n"
              "while waiting() < 3: time.sleep(0.01)\n"
              "for name in ('api', 'v6only', 'v4only'): go(name + '.good.test', 60)\n"
              "for t in late: t.join()\n")
    ran = box(allow("*.good.test"), PYTHON, "-c", script)
    lines = ran["stdout"].splitlines()
    tap.equal(lines[:3], ["api ok", "v6only ok", "v4only ok"], "names that answer are served while others do not", ran)
    tap.equal(sorted(lines[3:]), ["dead timeout", "deadhost timeout", "slow ok"],
              f"a name server that takes {SLOW_SECONDS} s is waited for; what is dead is the client's time-out", ran)


# --- streams -----------------------------------------------------------------------------

def streams_of_every_shape(tap):
    flags = allow(f"{GOOD}:22", f"{GOOD}:11371", f"{GOOD}:9", f"{GOOD}:80")
    NET.clear()
    ran = both(tap, flags, [
        (f"first {GOOD} 22", "SSH-2.0-test", "SSH-2.0-test"),
        (f"half {GOOD} 11371 5000000", "got 5000000", "got 5000000"),
        (f"half {GOOD} 11371 0", "got 0", "got 0"),
        (f"half {GOOD} 9 3000000", "closed", "closed"),
    ], "E13 E14 server first, half-closed, one way")
    counters = host_counters(ran, GOOD) or {}
    tap.equal((counters.get("connections"), counters.get("bytes_sent")), (4, 8000000),
              "the counters of the host are exact", ran["network"])
    tap.equal([e["bytes"] for e in NET.events("sink")], [3000000] * 2, "and so is what arrived")


def a_gibibyte(tap):
    curl = ["/usr/bin/curl", "-sS", "-m", "300", "-o", "/dev/null", "-w", "%{size_download}", f"http://{GOOD}/zeros/{GIB}"]
    start = time.monotonic()
    bare = run(curl, limit=320)
    middle = time.monotonic()
    ran = box([*allow(GOOD), "--timeout", "300"], *curl, limit=320)
    tap.equal(bare.text(), str(GIB), "1 GiB comes without a box", bare)
    tap.equal(ran["stdout"], str(GIB), "1 GiB comes through the relay", ran)
    tap.within((host_counters(ran, GOOD) or {}).get("bytes_received", 0), GIB, GIB + 4096, "and is counted", ran["network"])
    tap.note(f"1 GiB: {middle - start:.2f} s without a box, {time.monotonic() - middle:.2f} s in one")


def a_thousand_at_once(tap):
    bare = outside(f"hold {GOOD} 7 1000", preexec_fn=lambda: __import__("resource").setrlimit(7, (4096, 4096)))
    tap.equal(bare, ["1000 of 1000"], "1,000 connections at once without a box")
    script = ("import asyncio, resource\n"
              "resource.setrlimit(7, (resource.getrlimit(7)[1],) * 2)\n"
              "async def one(i, all_open):\n"
              f"    r, w = await asyncio.open_connection('{GOOD}', 7)\n"
              "    await all_open.wait()\n"
              "    w.write(b'%d\\n' % i); line = await r.readline(); w.close()\n"
              "    return int(line) == i\n"
              "class Gate:\n"
              "    def __init__(self, n): self.n, self.e = n, asyncio.Event()\n"
              "    async def wait(self):\n"
              "        self.n -= 1\n"
              "        if not self.n: self.e.set()\n"
              "        await self.e.wait()\n"
              "async def main():\n"
              "    gate = Gate(1000)\n"
              "    print(sum(await asyncio.gather(*(one(i, gate) for i in range(1000)))))\n"
              "asyncio.run(main())\n")
    start = time.monotonic()
    ran = box([*allow(f"{GOOD}:7"), "--timeout", "120", "--set", "limits.files=4096"], PYTHON, "-c", script, limit=140)
    tap.equal(ran["stdout"], "1000\n", "1,000 connections at once, each with its own data", ran)
    tap.equal((ran["network"]["connections"], ran["network"]["failed"]), (1000, 0), "all are counted", ran["network"])
    tap.note(f"1,000 connections took {time.monotonic() - start:.2f} s")


# --- caps ----------------------------------------------------------------------------------

def caps(tap):
    upload = ("import errno, socket\n"
              f"s = socket.create_connection(('{GOOD}', 9), 60)\n"
              "try:\n"
              "    for _ in range(11): s.sendall(bytes(1000000))\n"
              "    s.shutdown(1); print(s.recv(1))\n"
              "except OSError as e: print(errno.errorcode[e.errno])\n")
    NET.clear()
    free = box(allow(f"{GOOD}:9"), PYTHON, "-c", upload)
    tap.equal(free["stdout"], "b''\n", "11 MB go out without a cap", free)
    for key, cap in (("net.bytes", "bytes"), ("net.host_bytes", "host_bytes")):
        NET.clear()
        ran = box([*allow(f"{GOOD}:9"), "--set", f"{key}={10 * MB}"], PYTHON, "-c", upload)
        # ENOTCONN of shutdown(): the last bytes were in the socket already when it was reset.
        tap.among(ran["stdout"], ("ECONNRESET\n", "EPIPE\n", "ENOTCONN\n"), f"E36 {key}: 11 MB with 10 MB are cut", ran)
        end = time.monotonic() + 5
        while time.monotonic() < end and not any(e["bytes"] >= 9 * MB for e in NET.events("sink")):
            time.sleep(0.05)
        tap.within(sum(e["bytes"] for e in NET.events("sink")), 0, 11 * MB - 1, f"E36 {key}: not all of it arrived", ran)
        tap.equal(ran["network"]["capped"], [cap], f"E36 {key}: the record says which cap", ran["network"])
        tap.ok(any(key in rule for _, rule, _ in denials(ran)), f"E36 {key}: and the denial names the key", denials(ran))
    got, ran = inside([*allow(f"{GOOD}:7"), "--set", "net.connections=3"], f"hold {GOOD} 7 5")
    tap.equal((got, ran["network"]["capped"]), (["3 of 5"], ["connections"]), "net.connections", ran)
    got, ran = inside([*allow("*.many.test"), "--set", "net.names=2"], *(f"connect n{i}.many.test 80" for i in range(4)))
    tap.equal((got[:2], [g.startswith("eai=") for g in got[2:]], ran["network"]["capped"]),
              (["ok", "ok"], [True, True], ["names"]), "net.names", ran)


# --- proxies of the host ----------------------------------------------------------------------

def proxies(tap):
    for scheme, port, how in (("http", 3128, "connect"), ("socks5", 1080, "socks")):
        policy = os.path.join(SCRATCH, "proxy.json")
        with open(policy, "w", encoding="ascii") as f:
            json.dump({"net": {"mode": "filtered", "allow_out": [GOOD, "203.0.113.66"],
                               "proxy": f"{scheme}://{USER}:{PASSWORD}@192.0.2.254:{port}"}}, f)
        NET.clear()
        curl = ["/usr/bin/curl", "-sS", "-m", "30", "--cacert", NET.ca, f"https://{GOOD}/"]
        ran = box(["-p", policy, "--ro", NET.ca], *curl)
        tap.ok(ran["exit_code"] == 0 and f'"sni": "{GOOD}"' in ran["stdout"], f"{scheme}: an allowed site by a proxy", ran)
        seen = NET.events("proxy")
        tap.equal([(e["how"], e["target"], e["known"]) for e in seen], [(how, f"{GOOD}:443", True)],
                  f"{scheme}: the proxy is told the name, and who asks", seen)
        tap.equal(NET.lookups(), [], f"{scheme}: and the name is asked of nobody else")
        tap.ok(PASSWORD not in json.dumps(ran.record) and PASSWORD.encode() not in ran.err,
               f"{scheme}: the password is not in the record", ran)
        NET.clear()
        got, ran = inside(["-p", policy], "connect 198.51.100.11 80", "connect 203.0.113.66 80", "connect 192.0.2.254 3128")
        tap.equal(got, [REFUSED, "ok", REFUSED], f"{scheme}: the rules hold, and the proxy itself is not reached", ran)
        tap.equal([e["target"] for e in NET.events("proxy")], ["203.0.113.66:80"], f"{scheme}: only what is allowed asks it")
        with open(policy, "w", encoding="ascii") as f:
            json.dump({"net": {"mode": "filtered", "allow_out": [GOOD],
                               "proxy": f"{scheme}://{USER}:wrong-word@192.0.2.254:{port}"}}, f)
        got, ran = inside(["-p", policy], f"connect {GOOD} 80")
        tap.ok(got[0].startswith("errno=E") and ran["network"]["failed"] == 2, f"{scheme}: a wrong password fails closed", ran)
        tap.ok("wrong-word" not in json.dumps(ran.record), f"{scheme}: and is not told either", ran)


# --- a box that runs ------------------------------------------------------------------------

def start(flags, script):
    """A box of Python that prints lines."""
    return subprocess.Popen([NSBOX, "run", *flags, "--", PYTHON, "-u", "-c", script], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), cwd=SCRATCH)


SERVER = ("import socket\n"
          "s = socket.create_server(('0.0.0.0', 8000)); print('ready')\n"
          "while True:\n"
          "    c, _ = s.accept(); c.sendall(b'in the box: ' + c.recv(100)); c.close()\n")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, address="127.0.0.1"):
    with socket.create_connection((address, port), timeout=20) as s:
        s.sendall(b"hello")
        return s.recv(100)


def published_ports(tap):
    for what, flags in (("alone", []), ("with rules", allow(GOOD))):
        port = free_port()
        flags = [*flags, "--publish", f"{port}:8000"]
        server = start(flags, SERVER)
        tap.equal(server.stdout.readline(), b"ready\n", f"--publish {what}: the server runs")
        tap.equal([ask(port) for _ in range(40)], [b"in the box: hello"] * 40, f"--publish {what}: it is reached 40 times")
        second = run([NSBOX, "run", *flags, "--", "true"])
        tap.ok(second.rc == 125 and str(port).encode() in second.err and second.err.count(b"\n") == 1,
               f"--publish {what}: a second box on the same port is told so in one line", second)
        try:
            ask(port, "192.0.2.1")
            tap.ok(False, f"--publish {what}: not on the host's other addresses")
        except ConnectionRefusedError:
            tap.ok(True, f"--publish {what}: not on the host's other addresses")
        server.kill()
        server.communicate()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            try:
                ask(port)
            except OSError:
                break
            time.sleep(0.05)
        third = run([NSBOX, "run", *flags, "--", "true"])
        tap.equal((third.rc, third.err), (0, b""), f"--publish {what}: the port is free after it", third)


LOOP = ("import socket, sys\n"
        "def go(a, p):\n"
        "    try: return socket.create_connection((a, p), 30)\n"
        "    except OSError as e: return e.errno\n"
        "kept = go('198.51.100.10', 7)\n"
        "print('ready')\n"
        "for line in sys.stdin:\n"
        "    kept.settimeout(30)\n"
        "    try: kept.sendall(b'x\\n'); alive = kept.recv(9) == b'x\\n'\n"
        "    except OSError: alive = False\n"
        "    said = [go(a, 80) for a in ('198.51.100.10', '203.0.113.66')]\n"
        "    print(alive, *(s if isinstance(s, int) else 'ok' for s in said))\n")


class NetBox(Box):
    """The embedder's box, with a network."""

    def __init__(self, **keys):
        self.err, self.box = Error(size=c.sizeof(Error)), c.c_void_p()
        policy = self.policy(**keys)
        assert lib.nsbox_box_open(c.byref(self.box), LOCAL, policy, c.byref(self.err)) == 0, self.err.message
        lib.nsbox_policy_free(policy)

    def policy(self, **keys):
        """net__mode="open" sets net.mode."""
        policy = c.c_void_p()
        assert lib.nsbox_policy_new(c.byref(policy), b"default", c.byref(self.err)) == 0, self.err.message
        for key, value in keys.items():
            name = key.replace("__", ".").encode()
            assert lib.nsbox_policy_set(policy, name, value.encode(), c.byref(self.err)) == 0, self.err.message
        return policy

    def network(self, **keys):
        policy = self.policy(**keys)
        ret = lib.nsbox_box_network(self.box, policy, c.byref(self.err))
        lib.nsbox_policy_free(policy)
        return ret


@contextlib.contextmanager
def talking(script, **policy):
    """A box that runs the script, line by line; gives (box, its first line, say(line) -> answer, records)."""
    lib.nsbox_policy_set.argtypes = [c.c_void_p, c.c_char_p, c.c_char_p, c.c_void_p]
    lib.nsbox_box_network.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p]
    (to_box, ours), (back, from_box) = os.pipe(), os.pipe()
    records = []
    with NetBox(**policy) as b, os.fdopen(back, "rb") as out:
        thread = threading.Thread(target=lambda: records.append(
            b.run(PYTHON, "-u", "-c", script, stdin=IO_FD, stdout=IO_FD, in_fd=to_box, out_fd=from_box)))
        thread.start()

        def say(line):
            os.write(ours, line.encode() + b"\n")
            return out.readline().decode().strip()

        yield b, out.readline(), say, records
        os.close(ours)
        os.close(to_box)
        thread.join(60)
        os.close(from_box)


def new_rules_for_a_box_that_runs(tap):
    with talking(LOOP, net__mode="filtered", net__allow_out="198.51.100.10") as (b, first, say, records):
        tap.equal(first, b"ready\n", "the box runs")
        tap.equal(say("go"), "True ok 111", "with its first rules")
        tap.equal(b.network(net__mode="filtered", net__allow_out="203.0.113.66"), 0, "new rules are taken", b.err.message)
        tap.equal(say("go"), "False 111 ok", "they hold, and an open connection that they do not allow is closed")
        tap.equal(b.network(net__mode="filtered", net__deny_out="203.0.113.66"), 0, "and newer ones", b.err.message)
        tap.equal(say("go"), "False ok 111", "E16 are all that holds")
    tap.equal([r["exit_code"] for r in records], [0], "the run ends as usual", records)


def new_caps_of_names_for_a_box_that_runs(tap):
    script = ("import socket, sys\n"
              "print('ready')\n"
              "for line in sys.stdin:\n"
              "    said = []\n"
              "    for name in line.split():\n"
              "        try: socket.create_connection((name + '.many.test', 80), 30).close(); said.append('ok')\n"
              "        except socket.gaierror: said.append('none')\n"
              "    print(*said)\n")
    keys = {"net__mode": "filtered", "net__allow_out": "*.many.test"}
    with talking(script, net__names="2", **keys) as (b, first, say, records):
        tap.equal(first, b"ready\n", "net.names: the box runs")
        tap.equal(say("a b c"), "ok ok none", "net.names=2 are two names")
        tap.equal(b.network(net__names="1", **keys), 0, "a lower cap is taken", b.err.message)
        tap.equal(say("a b c"), "ok ok none", "and what was looked up stays, and nothing new is looked up")
        tap.equal(b.network(net__names="3", **keys), 0, "a higher cap is taken", b.err.message)
        tap.equal(say("a b c d"), "ok ok ok none", "and holds at once")
    tap.equal([d["rule"] for r in records for d in r["denials"]], ["net.names=2", "net.names=1", "net.names=3"],
              "each denial has the cap that held then", records)


def children_named(of, name):
    return [pid for pid, (parent, comm, state) in parents().items()
            if parent == of and comm.startswith(name) and state != "Z"]


def the_end_of_the_server_fails_closed(tap):
    script = ("import socket, sys, errno\n"
              "kept = socket.create_connection(('%s', 7), 30)\n"
              "print('ready'); sys.stdin.readline()\n"
              "kept.settimeout(30)\n"
              "try: kept.sendall(b'x'); print('kept', kept.recv(9))\n"
              "except OSError as e: print('kept', errno.errorcode.get(e.errno, e))\n"
              "s = socket.socket(); s.settimeout(3)\n"
              "try: s.connect(('198.51.100.10', 80)); print('ok')\n"
              "except OSError as e: print('none')\n" % GOOD)
    NET.clear()
    proc = subprocess.Popen([NSBOX, "run", "--json", "-i", *allow(f"{GOOD}:7", "198.51.100.10"), "--", PYTHON, "-u", "-c",
                             script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(),
                            cwd=SCRATCH)
    end = time.monotonic() + 20 * SLOWNESS
    while not NET.events("echo") and time.monotonic() < end:
        time.sleep(0.02)
    servers = children_named(proc.pid, "nsbox-egress")
    tap.equal(len(servers), 1, "one process serves the box, a child of its launcher", parents().get(proc.pid))
    for pid in servers:
        os.kill(pid, 9)
    while children_named(proc.pid, "nsbox-egress") and time.monotonic() < end:
        time.sleep(0.02)
    out, err = proc.communicate(b"go\n", timeout=60)
    record = json.loads(out)
    lines = record["stdout"].splitlines()
    tap.ok(lines[:1] == ["ready"] and lines[1:2] != ["kept b'x'"] and lines[2:] == ["none"],
           "killed: open connections end, and no other is made", (record, err))
    tap.ok(record["network"] is None or record["network"]["connections"] is None, "its counters are null, not a guess",
           record["network"])
    tap.ok(any("no network" in note for note in record["notes"]), "and the record says so", (record["notes"], err))


def nothing_is_left(tap):
    host = Snapshot()
    procs = [subprocess.Popen([NSBOX, "run", *allow(GOOD), "--", "/usr/bin/getent", "ahosts", GOOD],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ(), cwd=SCRATCH) for _ in range(10)]
    killed = start(allow(GOOD), "import time; print('ready'); time.sleep(60)")
    killed.stdout.readline()
    killed.kill()
    killed.communicate()
    wrong = [(p.returncode, e) for p, (_, e) in [(p, p.communicate(timeout=60)) for p in procs] if p.returncode or e]
    tap.equal(wrong, [], "ten boxes with a network at once")
    # A sweep leaves a group alone in which a box is still dying: the box comes after that.
    tap.equal(leftovers(20 * SLOWNESS), [], "the processes of the killed launcher's box end by themselves")
    inside(allow(GOOD), "lookup localhost")      # a later box removes the group of a killed launcher
    tap.equal(host.differences(3), [], "A20 nothing is left of them, nor of one whose launcher was killed")


if __name__ == "__main__":
    become_reaper()
    run_tests([names_of_every_kind, slow_and_dead_hold_up_nobody, streams_of_every_shape, a_gibibyte, a_thousand_at_once,
               caps, proxies, published_ports, new_rules_for_a_box_that_runs, new_caps_of_names_for_a_box_that_runs,
               the_end_of_the_server_fails_closed, nothing_is_left])
