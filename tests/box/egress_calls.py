# as: root user
# in: testnet
"""The network of a program by its calls, alone (callsbox.c): its filter, init's broker and the
supervisor, without a box around. Sockets as programs use them (callsacts.py), each act without
it and with it; then clients of the world, races, crowds, and the supervisor's death.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import SCRATCH, rounds, run  # noqa: E402
from callsbox import ACTS, acts, calls, finish, start  # noqa: E402
from egress import CLIENT, LIBC_CLIENT, NOT_FOUND, allow, has_denial, host_counters, lines_of, outside, words  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402
from testnet import Internet, packets_sent  # noqa: E402

NET = Internet()
PYTHON = "/usr/bin/python3"
GOOD, BAD, SILENT = "198.51.100.10", "203.0.113.66", "198.51.100.99"
REFUSED = "ECONNREFUSED"
ALLOWED = allow("api.good.test:1-65535", f"{GOOD}:1-65535", f"{GOOD}:7777/udp", "api.good.test:7777/udp",
                f"{SILENT}:80", "198.51.100.11:7777/udp", "[2001:db8:1::/48]:7777/udp")
AT_ONCE = 0.1       # seconds: a refusal waits for nobody


def same(tap, rows, title, flags=ALLOWED):
    """Rows of (act, answer without mediation, answer with it; None: the same)."""
    lines = [row[0] for row in rows]
    bare = run([PYTHON, ACTS, *lines]).text().split("\n")
    tap.equal(bare, [row[1] for row in rows], f"{title}: what the acts do without it")
    got, ran = acts(flags, *lines, limit=120)
    tap.equal(len(got), len(rows), f"{title}: each act has its answer", ran)
    for (act, _, want), answer, plain in zip(rows, got, bare):
        tap.equal(answer, plain if want is None else want, f"{title}: {act}", ran)
    return ran


def client(flags, *lines, program=LIBC_CLIENT):
    """The acts of netclient.c."""
    ran = calls(flags, program, *words(lines))
    return lines_of(ran), ran.record


def connections_are_those_of_any_program(tap):
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
        (f"disconnect_under_way {SILENT} 80", "ok", None),
        (f"after_failure {GOOD} 7 9999", "ECONNABORTED", f"{REFUSED} ok"),
        (f"dead_signal {SILENT}", "signal 15", None),
        (f"handled_signal {SILENT} 80", "EINTR", None),
        ("handled_signal_udp", "EINTR", None),
        (f"unblocking {SILENT} {GOOD} 7", "ok", None),
        (f"dup {GOOD} 7", "0 ok", None),
        (f"passed {GOOD} 7", "0 ok", None),
        (f"closed {GOOD} 7", "12345", None),
        (f"crowd {GOOD} 7 200", "200", None),
    ], "connections")
    got, ran = acts(ALLOWED, f"names {GOOD} 7")
    seen = got[0].split()
    tap.equal((seen[0], seen[2]), ("True", "True"), "names of both ends", ran)
    tap.ok(seen[1] != "192.0.2.1", "and none of them is the host's address", ran)


def what_would_go_past_connect_is_refused(tap):
    same(tap, [
        (f"fastopen {GOOD} 7", "EINPROGRESS", "ENOTSUP"),
        (f"fastopen_by_message {GOOD} 7", "EINPROGRESS", "ENOTSUP"),
        (f"sendmsg_address {GOOD} 7", "EPIPE", None),
        ("option 6 30 01000000", "ok", "ENOPROTOOPT"),          # TCP_FASTOPEN_CONNECT
        ("option 0 4 830708c6336442c6336442", "EINVAL", "ENOPROTOOPT"),     # IP_OPTIONS: a source route
        ("option 1 25 6c6f00", "ok", "ENOPROTOOPT"),            # SO_BINDTODEVICE
        ("option 6 1 01000000", "ok", None), ("option 1 9 01000000", "ok", None),   # NODELAY, KEEPALIVE
        ("interfaces", "ok", "EPERM"),
        ("family 1 1", "ok", "EACCES"),
        ("family 16 3", "ok", "EAFNOSUPPORT"),
        ("pair 1", "by message", None), ("pair 5", "by message", None),
        ("pair 2", "by message", "EPROTONOSUPPORT"),
    ], "ways past connect")


def servers_and_clients_of_one_program_meet(tap):
    same(tap, [
        ("server 8401", "hello True True ('127.0.0.1', 8401)", None),
        ("server_on_all 8402", "hello True True hello True True ('0.0.0.0', 8402)", None),
        ("server_any_port", "hello True True", None),
        ("server_unbound", "hello True True", None),
        ("server_both_families 8403", "hello True True hello True True", None),
        ("server_of_ipv6_alone 8404", f"hello True True {REFUSED}", None),
        ("twice 8405", f"EADDRINUSE {REFUSED} hello True True", None),
        ("asyncio_server 8406", "20 HELLO", None),
        ("processes", "[1, 2, 3] 42", None),
        ("bind 127.0.0.1 0", "ok", None), ("bind 198.51.100.1 0", "EADDRNOTAVAIL", None),
    ], "servers")
    listener = subprocess.Popen([PYTHON, "-c", "import socket, time; s = socket.create_server(('127.0.0.1', 8407)); "
                                 "print('up', flush=True); time.sleep(600)"], stdout=subprocess.PIPE)
    try:
        listener.stdout.readline()
        tap.equal(run([PYTHON, ACTS, "connect 127.0.0.1 8407"]).text(), "ok", "a server of the host's is there")
        got, ran = acts(ALLOWED, "connect 127.0.0.1 8407", "server 8407")
        tap.equal(got, [REFUSED, "hello True True ('127.0.0.1', 8407)"],
                  "the program has no part of it, but the port for itself", ran)
    finally:
        listener.kill()
        listener.communicate()


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
    got, ran = acts(ALLOWED, f"udp_connected {GOOD} 7777")
    tap.ok(got[0].startswith("echo one, echo two, True "), "a connected one", ran)


def denials_are_those_of_any_box(tap):
    """The rows of egress_core.py: the same words, and answers but for one. A "UDP socket" of calls has
    no error for who only receives: recv(2) is woken, and gets nothing."""
    flags = allow("api.good.test")
    rows = [("get api.good.test 80 api.good.test", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK"),
            ("connect evil.test 80", "ok", NOT_FOUND),
            ("connect 203.0.113.66 80", "ok", "errno=ECONNREFUSED"),
            ("connect 2001:db8:66::66 80", "ok", "errno=ECONNREFUSED"),
            ("connect api.good.test 8080", "ok", "errno=ECONNREFUSED"),
            ("udp 203.0.113.66 7777 x", "echo x", ""),
            ("connect 169.254.169.254 80", "ok", "errno=ECONNREFUSED")]
    lines = [row[0] for row in rows]
    for program, kind in ((LIBC_CLIENT, "glibc"), (CLIENT, "a static program")):
        tap.equal(outside(*lines, client=program), [row[1] for row in rows], f"{kind}: without mediation")
        got, ran = client(flags, *lines, program=program)
        tap.equal(got, [row[2] for row in rows], f"{kind}: with it", ran)
    for what, rule, flag in (
            ("lookup evil.test", "net.allow_out (not listed)", "--allow-out evil.test"),
            ("connect 203.0.113.66:80", "net.allow_out (not listed)", "--allow-out 203.0.113.66:80"),
            ("connect [2001:db8:66::66]:80", "net.allow_out (not listed)", "--allow-out [2001:db8:66::66]:80"),
            ("connect api.good.test:8080", "re:net.allow_out=api.good.test.*", "--allow-out api.good.test:8080"),
            ("send 203.0.113.66:7777/udp", "net.allow_out (not listed)", "--allow-out 203.0.113.66:7777/udp")):
        has_denial(tap, ran, what, rule, flag, f"the record has {what}")
    tap.equal((ran["network"]["mode"], ran["network"]["path"]), ("filtered", "calls"), "and how it was served", ran)
    counters = host_counters(ran, "api.good.test") or {}
    tap.ok(counters.get("connections") == 1 and counters.get("bytes_received", 0) > 20,
           "and what went to the allowed name", ran["network"])
    got, ran = client(["--net", "open"], "connect evil.test 80", "connect 10.1.2.3 80", "connect 169.254.169.254 80")
    tap.equal(got, ["ok", "errno=ECONNREFUSED", "errno=ECONNREFUSED"], "open, but not what is private", ran)
    has_denial(tap, ran, "connect 169.254.169.254:80", "always denied: link-local 169.254.0.0/16",
               "--allow-private 169.254.169.254", "the record names the range and the flag")


def a_denial_sends_nothing_and_takes_no_time(tap):
    lines = (f"connect {BAD} 80", f"udp_denied {BAD} 7777")
    acts(ALLOWED, "connect api.good.test 7")        # neighbours are known now
    before = packets_sent()
    run([PYTHON, ACTS, *lines])
    tap.ok(packets_sent() > before, "the same acts without mediation send packets")
    before = packets_sent()
    got, ran = acts(ALLOWED, *lines)
    tap.equal((got, packets_sent() - before), ([REFUSED, REFUSED], 0), "with it not one leaves the host", ran)
    script = ("import socket, time\ntook = []\nfor i in range(20):\n    b = time.monotonic(); s = socket.socket()\n"
              f"    assert s.connect_ex(('{BAD}', 80)); took.append(time.monotonic() - b); s.close()\nprint(min(took))")
    ran = calls(ALLOWED, PYTHON, "-c", script)
    tap.ok(float(ran.text()) < AT_ONCE, "the quickest of twenty refusals takes less than 100 ms", ran)


def nobody_wins_a_race_for_an_address(tap):
    """Another thread changes what a call points to while it is looked at."""
    n = rounds(4000)
    for act, kind in ((f"flip {n} {GOOD} {BAD} 7", "echo"), (f"udp_flip {n} {GOOD} {BAD} 7777 4", "udp")):
        NET.clear()
        got, ran = acts(ALLOWED, act, limit=300)
        tap.equal(got, ["some"], f"{act.split()[0]}: some calls of {n} were for the allowed one", ran)
        settle()
        tap.equal({e["to"] for e in NET.events(kind)}, {GOOD}, "and nobody else was ever reached")
        run([PYTHON, ACTS, act], limit=300)
        settle()
        tap.equal({e["to"] for e in NET.events(kind)}, {GOOD, BAD}, "without mediation both are reached")


def settle():
    """Until the servers have read all that came: their log no longer grows."""
    before = -1
    while (now := len(NET.events())) != before:
        before = now
        time.sleep(0.5)


def clients_of_the_world_work(tap):
    flags = allow("api.good.test")
    curl = ["env", "-i", "/usr/bin/curl", "-sS", "-m", "30", "--cacert", NET.ca]
    for scheme in ("http", "https"):
        tap.equal(run([*curl, f"{scheme}://evil.test/x"]).rc, 0, f"curl, {scheme}: any site without mediation")
        ran = calls(flags, *curl, f"{scheme}://api.good.test/x")
        tap.ok(ran.rc == 0 and "api.good.test" in ran.text(), f"curl, {scheme}: an allowed site", ran)
        tap.equal(calls(flags, *curl, f"{scheme}://evil.test/x").rc, 6, f"curl, {scheme}: another is not resolved")
        ran = calls(flags, *curl, f"{scheme}://{BAD}/x")
        tap.equal(ran.rc, 7, f"curl, {scheme}: nor its address connected to", ran)
    has_denial(tap, ran.record, f"connect {BAD}:443", "net.allow_out (not listed)", f"--allow-out {BAD}:443", "which is recorded")
    script = ("import urllib.request; print(urllib.request.urlopen('http://api.good.test/').status)\n"
              "try: urllib.request.urlopen('http://evil.test/')\nexcept OSError as e: print(type(e).__name__)")
    tap.equal(calls(flags, PYTHON, "-c", script).text(), "200\nURLError", "urllib")
    script = ("import asyncio\nasync def main():\n    r, w = await asyncio.open_connection('api.good.test', 80)\n"
              "    w.write(b'GET / HTTP/1.0\\r\\nHost: api.good.test\\r\\n\\r\\n'); print((await r.readline()).decode().strip())\n"
              "asyncio.run(main())")
    tap.equal(calls(flags, PYTHON, "-c", script).text(), "HTTP/1.1 200 OK", "asyncio")
    script = ("exec 3<>/dev/tcp/api.good.test/80; printf 'GET / HTTP/1.0\\r\\nHost: api.good.test\\r\\n\\r\\n' >&3; head -1 <&3; "
              f"(exec 4<>/dev/tcp/{BAD}/80) 2>/dev/null || echo refused")
    tap.equal(calls(flags, "bash", "-c", script).text().replace("\r", ""), "HTTP/1.1 200 OK\nrefused", "bash's own connections")
    if shutil.which("node"):
        script = ("(async () => { console.log((await fetch('http://api.good.test/')).status);"
                  "try { await fetch('http://evil.test/'); console.log('ok') } catch (e) { console.log(e.cause.code) } })()")
        tap.equal(calls(flags, "node", "-e", script).text(), "200\nENOTFOUND", "fetch of Node")
    if shutil.which("dig"):
        tap.equal(calls(flags, "dig", "+short", "+tries=1", "evil.test").text(), "", "dig of a name that is not allowed")
        for how in ("+notcp", "+tcp"):
            ran = calls(flags, "dig", "+short", how, "api.good.test", "A")
            tap.ok(ran.rc == 0 and len(ran.text().split(".")) == 4, f"dig {how} of an allowed one", ran)


def names_of_requests_are_judged(tap):
    """An allowed address with another site's name in TLS or HTTP."""
    flags = allow("api.good.test")
    curl = ["env", "-i", "/usr/bin/curl", "-sS", "-m", "30", "--cacert", NET.ca]
    for scheme, args in (("http", ["-H", "Host: evil.test"]), ("https", ["--connect-to", "evil.test:443:api.good.test:443"])):
        url = f"{scheme}://{'api.good.test' if scheme == 'http' else 'evil.test'}/x"
        tap.equal(run([*curl, *args, url]).rc, 0, f"{scheme}: works without mediation")
        NET.clear()
        ran = calls(flags, *curl, *args, url)
        tap.ok(ran.rc != 0, f"{scheme}: is refused", ran)
        tap.equal([e for e in NET.events() if e.get("sni") == "evil.test" or e.get("requests")], [], "and reaches nobody")
        tap.ok(any(d["layer"] == "egress" and "evil.test" in d["what"] for d in ran.record["denials"]), "and is recorded", ran)


def a_datagram_socket_that_ends_sends_no_more(tap):
    NET.clear()
    got, ran = acts(ALLOWED, f"udp_brief {GOOD} 7777 400")
    settle()
    tap.equal((got, len(NET.events("udp"))), (["50"], 400), "400 sockets, closed or shut down: 400 datagrams arrive", ran)


def no_rule_opens_the_hosts_loopback(tap):
    """Not even its name server: the stub answers there. Only root can be that server here."""
    flags = [*allow("api.good.test", "127.0.0.0/8:53", "127.0.0.0/8:53/udp"), "--allow-private", "127.0.0.0/8"]
    ask = ["dig", "+short", "+tries=1", "+time=3", "@127.0.0.53", "api.good.test", "A"]
    for how in ("+notcp", "+tcp"):
        tap.ok(run([*ask, how]).rc != 0, f"dig {how}: without mediation nobody answers")
        ran = calls(flags, *ask, how)
        tap.ok(ran.rc == 0 and len(ran.text().split(".")) == 4, f"dig {how}: with it the stub does", ran)
    if os.getuid() != 0:
        return
    listener = subprocess.Popen([PYTHON, "-c", "import socket, time\nfor k in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
                                 "    s = socket.socket(type=k); s.bind(('127.0.0.53', 53)); globals()[str(k)] = s\n"
                                 "    k == 1 and s.listen()\nprint('up', flush=True)\nwhile True:\n    c, _ = globals()["
                                 "str(socket.SOCK_STREAM)].accept(); print('came', flush=True)"], stdout=subprocess.PIPE)
    try:
        listener.stdout.readline()
        for how in ("+notcp", "+tcp"):
            tap.ok(run([*ask, how]).rc != 0, f"dig {how}: the host's own server does not answer")
            ran = calls(flags, *ask, how)
            tap.ok(ran.rc == 0 and len(ran.text().split(".")) == 4, f"dig {how}: the stub still does", ran)
    finally:
        listener.kill()
        out, _ = listener.communicate()
    tap.equal(out.count(b"came"), 1, "the host's server has heard of the one control")


def what_is_inherited_is_no_way_past_the_broker(tap):
    script = f"import socket; s = socket.socket(fileno=0); print(s.sendto(b'x', ('{BAD}', 7777)))"
    for kind, want in ((socket.SOCK_DGRAM, 125), (socket.SOCK_STREAM, 0)):
        with socket.socket(type=kind) as s:
            if kind == socket.SOCK_STREAM:
                s.connect((GOOD, 7))
                ran = calls(ALLOWED, "/bin/true", stdin=s)
            else:
                tap.equal(s.sendto(b"x", (BAD, 7777)), 1, "a datagram socket sends to anybody")
                ran = calls(ALLOWED, PYTHON, "-c", script, stdin=s)
            tap.equal(ran.rc, want, f"{kind.name} as standard input", ran)


def a_supervisor_that_sleeps_stalls_nobody_else(tap):
    """Init goes on: it reaps, tells the end, and lets go of who is killed."""
    script = ("input(); print('up', flush=True); input()\npid = os.fork()\n"
              f"if pid == 0: socket.socket()\n"
              "__import__('time').sleep(0.5); os.kill(pid, 15); print(os.waitpid(pid, 0)[1], flush=True)")
    begun = time.monotonic()
    with running(script) as (say, pid, _):
        os.kill(pid, signal.SIGSTOP)
        said = say()
    tap.equal(said, "15", "who waits for a supervisor that sleeps can be killed, and is reaped")
    tap.ok(time.monotonic() - begun < 30, "and the end is told without its report")


def new_rules_hold_at_once(tap):
    """A connection that they deny is reset, the next is refused, and what they allow works."""
    script = ("def says(f, *a):\n    try: return f(*a)\n    except OSError as e: return e.errno\n"
              f"a = socket.create_connection(('{GOOD}', 7)); t = [socket.socket() for _ in range(2)]\n"
              f"input(); print(says(t[0].connect, ('{BAD}', 7)), flush=True); input(); a.settimeout(20)\n"
              f"print(says(a.recv, 1), says(socket.socket().connect, ('{GOOD}', 7)), says(t[1].connect, ('{BAD}', 7)), flush=True)")
    with running(script, f"net.allow_out={BAD}:7") as (say, _, first):
        say.proc.send_signal(signal.SIGUSR1)
        say.proc.stderr.readline()
        said = say()
    tap.equal(first, "111", "under the first rules the other one is refused")
    tap.equal(said, "104 111 None", "under the new ones it is the other way round")


def caps_hold(tap):
    flags = [*ALLOWED, "--set", "net.connections=3"]
    script = ("import socket\nkept = []\nfor i in range(5):\n    s = socket.socket()\n"
              f"    print(s.connect_ex(('{GOOD}', 7))); kept.append(s)")
    tap.equal(calls(ALLOWED, PYTHON, "-c", script).text().split(), ["0"] * 5, "five connections without a cap")
    ran = calls(flags, PYTHON, "-c", script)
    tap.equal(ran.text().split(), ["0", "0", "0", "111", "111"], "three with a cap of three", ran)


def bulk_goes_through(tap):
    size = 100 << 20
    script = ("import socket\n"
              f"s = socket.create_connection(('{GOOD}', 7)); import threading\n"
              f"def send():\n    for _ in range({size >> 20}): s.sendall(bytes(1 << 20))\n    s.shutdown(socket.SHUT_WR)\n"
              "t = threading.Thread(target=send); t.start(); n = 0\n"
              "while part := s.recv(1 << 20): n += len(part)\nt.join(); print(n)")
    ran = calls(ALLOWED, PYTHON, "-c", script, limit=300)
    tap.equal(ran.text(), str(size), "100 MiB to an echo and back", ran)


def closed_sockets_leave_nothing(tap):
    """The supervisor has no copy of a socket longer than something is under way for it."""
    script = ("def some(n):\n    for i in range(n):\n"
              f"        s = socket.create_connection(('{GOOD}', 7)); s.send(b'x'); s.recv(1); s.close()\n"
              "        u = socket.socket(type=socket.SOCK_DGRAM); u.sendto(b'x', ('127.0.0.1', 9)); u.close()\n"
              "for n in (1, 300):\n    input(); some(n); print('done', flush=True)\nos.read(0, 1)")
    with running(script) as (say, pid, first):
        until_closed()
        before = descriptors(pid)
        tap.equal((first, say()), ("done", "done"), "one connection, then three hundred")
        until_closed()
        tap.equal(NET.echoes_open(), 0, "all were closed, and the far end knows")
        if os.getuid() == 0:    # a user may not look into its supervisor
            tap.equal(descriptors(pid), before, "and the supervisor has no more descriptors than after the first")


def until_closed():
    end = time.monotonic() + 20
    while NET.echoes_open() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)     # the supervisor's own turn


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd")) if os.getuid() == 0 else None


@contextlib.contextmanager
def running(script, new=None):
    """(say, pid, first): a program that has the modules os and socket; the lines that it prints, each after
    it was let on by an empty line; the process id of its supervisor; the first
    line. @new: a setting that SIGUSR1 brings, which a line of stderr tells."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        path = os.path.join(folder, "pid")
        proc, record = start(ALLOWED, PYTHON, "-c", "import os, socket\n" + script, pid_file=path, new=new, stdin=subprocess.PIPE)

        def say():
            proc.stdin.write(b"\n")
            proc.stdin.flush()
            return proc.stdout.readline().decode().strip()

        say.proc = proc
        first = say()
        try:
            with open(path, encoding="ascii") as f:
                yield say, int(f.read()), first
        finally:
            out, err = proc.communicate(timeout=60)
            record.close()
            if err:
                print("# " + err.decode().replace("\n", "\n# "), out)


def without_its_supervisor_there_is_no_network(tap):
    script = ("def says(f, *a):\n    try: return f(*a)\n    except OSError as e: return e.errno\n"
              f"s = socket.create_connection(('{GOOD}', 7)); u = socket.socket(type=socket.SOCK_DGRAM); t = socket.socket()\n"
              "input(); print('made', flush=True); input()\n"
              f"print(says(socket.socket), says(t.connect, ('{GOOD}', 7)), says(u.sendto, b'x', ('{GOOD}', 7777)), says(s.recv, 1),"
              " flush=True)")
    with running(script) as (say, pid, _):
        os.kill(pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{pid}") and state_of(pid) != "Z":
            time.sleep(0.01)
        said = say().split()
    tap.equal(said[:3], ["100", "100", "32"], "ENETDOWN for a socket and a connection, EPIPE for a datagram", said)
    tap.among(said[3], ("b''", "104"), "and what was connected has ended", said)


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def nothing_is_left(tap):
    tap.equal(leftovers(), [], "no process is left")


if __name__ == "__main__":
    become_reaper()
    sys.exit(run_tests([
        connections_are_those_of_any_program, what_would_go_past_connect_is_refused,
        servers_and_clients_of_one_program_meet, datagrams_go_and_come, denials_are_those_of_any_box,
        a_denial_sends_nothing_and_takes_no_time, nobody_wins_a_race_for_an_address, clients_of_the_world_work,
        names_of_requests_are_judged, a_datagram_socket_that_ends_sends_no_more, no_rule_opens_the_hosts_loopback,
        what_is_inherited_is_no_way_past_the_broker, a_supervisor_that_sleeps_stalls_nobody_else, new_rules_hold_at_once, caps_hold, bulk_goes_through, closed_sockets_leave_nothing,
        without_its_supervisor_there_is_no_network, nothing_is_left]))
