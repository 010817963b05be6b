# as: walls rootwalls
# in: testnet
"""The network of a box without namespaces: what programs do with sockets (callsacts.py), each
act without a box and in one. Rules and records are those of any box (egress_core.py).
"""

import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, REPO, SCRATCH, WALLS, box, environ, rounds, run  # noqa: E402
from egress import allow, denials, has_denial  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402
from testnet import Internet  # noqa: E402

NET = Internet()
PYTHON = "/usr/bin/python3"
ACTS = os.path.join(REPO, "tests/harness/callsacts.py")
GOOD, BAD, SILENT = "198.51.100.10", "203.0.113.66", "198.51.100.99"
REFUSED = "ECONNREFUSED"
ALLOWED = allow("api.good.test:1-65535", f"{GOOD}:1-65535", f"{GOOD}:7777/udp", "api.good.test:7777/udp",
                f"{SILENT}:80", "198.51.100.11:7777/udp", "[2001:db8:1::/48]:7777/udp")


def inside(acts, flags=ALLOWED, limit=120, **how):
    ran = box(["--ro", os.path.dirname(ACTS), "--timeout", "100", *flags], PYTHON, ACTS, *acts, limit=limit, **how)
    return ran["stdout"].rstrip("\n").split("\n"), ran


def same(tap, rows, title):
    """Rows of (act, answer without a box, answer in it; None: the same)."""
    acts = [row[0] for row in rows]
    bare = run([PYTHON, ACTS, *acts]).text().split("\n")
    tap.equal(bare, [row[1] for row in rows], f"{title}: what the acts do without a box")
    got, ran = inside(acts)
    tap.equal(len(got), len(rows), f"{title}: each act has its answer", ran)
    for (act, _, want), answer, plain in zip(rows, got, bare):
        tap.equal(answer, plain if want is None else want, f"{title}: {act}", ran)
    return ran


def connections_are_those_of_a_program_of_the_host(tap):
    same(tap, [
        ("connect api.good.test 7", "ok", None),
        (f"connect {BAD} 7", "ok", REFUSED),
        (f"connect {GOOD} 9999", REFUSED, None),
        (f"without_waiting {GOOD} 7", "EINPROGRESS ok 0", None),
        # What a rule refuses is known at once.
        (f"without_waiting {BAD} 7", "EINPROGRESS ok 0", "ECONNREFUSED ok ECONNREFUSED"),
        (f"in_time {SILENT} 80 0.5", "in time", None),
        (f"send_time {SILENT} 80 0.5", "EINPROGRESS in time", None),
        (f"others_go_on {SILENT} {GOOD} 7", "ok", None),
        (f"disconnect {GOOD} 7", "ok", None),
        (f"after_failure {GOOD} 7 9999", "ECONNABORTED", f"{REFUSED} ok"),
        (f"dead_signal {SILENT}", "signal 15", None),
        (f"dup {GOOD} 7", "0 ok", None),
        (f"passed {GOOD} 7", "0 ok", None),
        (f"closed {GOOD} 7", "12345", None),
        (f"crowd {GOOD} 7 200", "200", None),
    ], "connections")
    got, ran = inside([f"names {GOOD} 7"])
    tap.equal(got[0].split()[0] + got[0].split()[2], "TrueTrue", "names of both ends", ran)
    tap.ok(got[0].split()[1] not in ("192.0.2.1",), "and none of them is the host's address", ran)


def what_would_go_past_connect_is_refused(tap):
    same(tap, [
        (f"fastopen {GOOD} 7", "EINPROGRESS", "ENOTSUP"),
        (f"fastopen_by_message {GOOD} 7", "EINPROGRESS", "ENOTSUP"),
        (f"sendmsg_address {GOOD} 7", "EPIPE", None),
        ("option 6 30 01000000", "ok", "ENOPROTOOPT"),          # TCP_FASTOPEN_CONNECT
        ("option 0 4 830708c6336442c6336442", "EINVAL", "ENOPROTOOPT"),     # IP_OPTIONS: a source route
        ("option 1 25 6c6f00", "ok", "ENOPROTOOPT"),            # SO_BINDTODEVICE
        ("interfaces", "ok", "EPERM"),
        ("family 1 1", "ok", "EACCES"),
        ("family 16 3", "ok", "EAFNOSUPPORT"),
        ("family 17 3", "ok" if os.getuid() == 0 else "EPERM", "EAFNOSUPPORT"),
        ("pair 1", "by message", None), ("pair 5", "by message", None), ("pair 2", "by message", "EPROTONOSUPPORT"),
    ], "ways past connect")


def servers_and_clients_of_a_box_meet(tap):
    same(tap, [
        ("server 8401", "hello True True ('127.0.0.1', 8401)", None),
        ("server_on_all 8402", "hello True True hello True True ('0.0.0.0', 8402)", None),
        ("server_any_port", "hello True True", None),
        ("server_unbound", "hello True True", None),
        ("server_both_families 8403", "hello True True hello True True", None),
        ("server_of_ipv6_alone 8404", f"hello True True {REFUSED}", None),
        ("twice 8405", f"EADDRINUSE {REFUSED} hello True True", None),
        ("asyncio_server 8406", "20 HELLO", None),
        ("bind 127.0.0.1 0", "ok", None), ("bind 198.51.100.1 0", "EADDRNOTAVAIL", None),
    ], "servers")
    listener = subprocess.Popen([PYTHON, "-c", "import socket, time; s = socket.create_server(('127.0.0.1', 8407)); "
                                 "print('up', flush=True); time.sleep(600)"], stdout=subprocess.PIPE)
    try:
        listener.stdout.readline()
        tap.equal(run([PYTHON, ACTS, "connect 127.0.0.1 8407"]).text(), "ok", "a server of the host's is there")
        got, ran = inside(["connect 127.0.0.1 8407", "server 8407"])
        tap.equal(got, [REFUSED, "hello True True ('127.0.0.1', 8407)"], "a box has no part of it, but the port for itself", ran)
    finally:
        listener.kill()
        listener.wait()


def datagrams_go_and_come(tap):
    same(tap, [
        (f"udp_echo {GOOD} 7777", "echo hi True", None),
        ("udp_echo api.good.test 7777", "echo hi True", None),
        (f"udp_blocking {GOOD} 7777", "echo wait", None),
        (f"udp_message {GOOD} 7777", "echo by message 0 True", None),
        (f"udp_many {GOOD} 7777 198.51.100.11", "True", None),
        (f"udp_asyncio {GOOD} 7777", "echo aio", None),
        (f"udp_denied {BAD} 7777", "echo no", REFUSED),
        (f"udp_denied_connected {BAD} 7777", "0", REFUSED),
        ("udp_nothing", "EAGAIN", None), ("udp_time", "EAGAIN", None),
        ("udp_server 8410", "QUESTION 8410 ('127.0.0.1', 8410)", None),
        ("udp_kind", "2 2 17", None),
    ], "datagrams")
    got, ran = inside([f"udp_connected {GOOD} 7777"])
    tap.ok(got[0].startswith("echo one, echo two, True "), "a connected one", ran)


def nobody_wins_a_race_for_an_address(tap):
    """Another thread changes what a call points to while it is looked at."""
    n = rounds(4000)
    for act, kind in ((f"flip {n} {GOOD} {BAD} 7", "echo"), (f"udp_flip {n} {GOOD} {BAD} 7777 4", "udp")):
        NET.clear()
        got, ran = inside([act], limit=300)
        tap.equal(got, ["some"], f"{act.split()[0]} in a box: some calls of {n} were for the allowed one", ran)
        time.sleep(0.5)     # what the servers have not read yet
        tap.equal({e["to"] for e in NET.events(kind)}, {GOOD}, "and nobody else was ever reached")
        run([PYTHON, ACTS, act])
        time.sleep(0.5)
        tap.equal({e["to"] for e in NET.events(kind)}, {GOOD, BAD}, "without a box both are reached")


def clients_of_the_world_work(tap):
    curl = ["env", "-i", "/usr/bin/curl", "-sS", "-m", "30", "--cacert", NET.ca]
    flags = ["--ro", NET.ca, *allow("api.good.test")]
    ran = box(flags, *curl, "https://api.good.test/x")
    tap.ok(ran["exit_code"] == 0 and '"sni": "api.good.test"' in ran["stdout"], "curl, TLS and a name", ran)
    ran = box(flags, *curl, f"https://{BAD}/x")
    tap.equal(ran["exit_code"], 7, "curl fails to connect to another address", ran)
    has_denial(tap, ran, f"connect {BAD}:443", "net.allow_out (not listed)", f"--allow-out {BAD}:443", "which is recorded")
    tap.ok(ran["usage"]["wall_ms"] < 3000, "without a wait", ran)
    script = ("import urllib.request, http.client; print(urllib.request.urlopen('http://api.good.test/').status)\n"
              "try: urllib.request.urlopen('http://evil.test/')\nexcept OSError as e: print(type(e).__name__)")
    ran = box(flags, PYTHON, "-c", script)
    tap.equal(ran["stdout"], "200\nURLError\n", "urllib", ran)
    ran = box(flags, "bash", "-c", "exec 3<>/dev/tcp/api.good.test/80; printf 'GET / HTTP/1.0\\r\\nHost: api.good.test\\r\\n\\r\\n' >&3; head -1 <&3")
    tap.equal(ran["stdout"].strip(), "HTTP/1.1 200 OK", "bash's own connections", ran)


def without_its_supervisor_a_box_has_no_network(tap):
    proc = subprocess.Popen([NSBOX, "run", *WALLS, *ALLOWED, "--ro", os.path.dirname(ACTS), "--", PYTHON, "-c",
                             f"import sys, runpy; print('up', flush=True); sys.stdin.readline(); sys.argv = ['x', 'connect {GOOD} 7']; sys.path.insert(0, {os.path.dirname(ACTS)!r}); "
                             f"runpy.run_path({ACTS!r}, run_name='__main__')"], env=environ(), cwd=SCRATCH,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with proc:
        proc.stdout.readline()
        for pid in supervisors_of(proc.pid):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        out, err = proc.communicate("go\n", timeout=60)
    tap.equal(out.strip(), "ENETDOWN", "a killed supervisor: no socket any more", (out, err))


def a_port_of_the_host_leads_to_a_server_in_the_box(tap):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    proc = subprocess.Popen([NSBOX, "run", *WALLS, *ALLOWED, "--publish", f"{port}:8420", "--", PYTHON, "-u", "-c",
                             "import socket\ns = socket.create_server(('0.0.0.0', 8420)); print('up')\n"
                             "while True:\n    c, _ = s.accept(); c.sendall(b'in the box: ' + c.recv(9)); c.close()"],
                            env=environ(), cwd=SCRATCH, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with proc:
        proc.stdout.readline()
        said = []
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port), 20) as c:
                c.sendall(b"hello")
                said.append(c.recv(100))
        proc.terminate()
    tap.equal(said, [b"in the box: hello"] * 20, "--publish: it is reached each time")


def a_box_that_is_halted_gets_what_it_asked_for(tap):
    """What interrupts init while it answers: SIGSTOP here, a freeze of its cgroup, a suspend."""
    halts = 0
    proc = subprocess.Popen([NSBOX, "run", *WALLS, *ALLOWED, "--ro", os.path.dirname(ACTS), "--timeout", "60", "--", PYTHON,
                             ACTS, "sockets 8"], env=environ(), cwd=SCRATCH, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        time.sleep(1)
        init = run(["pgrep", "-P", str(proc.pid), "-f", "nsbox-init"]).text()
        while init and halts < 2000 and proc.poll() is None:
            os.kill(int(init), signal.SIGSTOP)
            os.kill(int(init), signal.SIGCONT)
            halts += 1
            time.sleep(0.002)
        out, _ = proc.communicate(timeout=60)
    finally:
        proc.kill()
        proc.wait()
    tap.equal(out, b"sockets\n", "each socket(2) gave a socket", proc)
    tap.ok(halts > 100, f"while init was halted {halts} times")


def supervisors_of(pid):
    found = run(["pgrep", "-P", str(pid), "nsbox-egress"]).text().split()
    if not found:
        raise AssertionError("no nsbox-egress is a child of the launcher")
    return [int(p) for p in found]


def nothing_is_left(tap):
    tap.equal(leftovers(), [], "no process is left")


if __name__ == "__main__":
    become_reaper()
    sys.exit(run_tests([
        connections_are_those_of_a_program_of_the_host, what_would_go_past_connect_is_refused,
        servers_and_clients_of_a_box_meet, datagrams_go_and_come, nobody_wins_a_race_for_an_address,
        clients_of_the_world_work, a_port_of_the_host_leads_to_a_server_in_the_box,
        a_box_that_is_halted_gets_what_it_asked_for, without_its_supervisor_a_box_has_no_network, nothing_is_left]))
