# as: root user
"""net.path=veth: a box behind a device of the host's network. The host is this suite's own
network namespace, with an internet of one more behind it; nothing of the real host's network
is touched."""

import atexit
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, NSBOX, SCRATCH, box, environ, nsbox  # noqa: E402
from host import become_reaper  # noqa: E402
from tap import SLOWNESS, needs, run_tests  # noqa: E402

VETH = os.path.join(os.path.dirname(NSBOX), "nsbox-veth")
FORWARD = "/proc/sys/net/ipv4/ip_forward"
HERE, PEER, OTHER, PRIVATE = "203.0.113.1", "203.0.113.2", "203.0.113.9", "10.9.9.9"
CLONE_NEWNET = 0x40000000

# Each argument is one try: what it says of itself is one line.
CLIENT = r"""
import errno, socket, struct, sys
def say(s): print(s, flush=True)
for what in sys.argv[1:]:
    kind, host, port = what.split(",")
    s = None
    try:
        if kind == "tcp":
            s = socket.create_connection((host, int(port)), 20)
            s.sendall(b"ping\n")
            answer = s.recv(100)
        elif kind == "udp":
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.settimeout(20)
            s.sendto(b"ping\n", (host, int(port)))
            answer = s.recv(100)
        else:
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
            s.settimeout(20)
            s.sendto(b"\x08\0\0\0\0\0\0\1ping\n", (host, 0))
            answer = s.recv(100)[8:]
        say("ok" if answer == b"ping\n" else repr(answer))
    except TimeoutError:
        say("timeout")
    except OSError as e:
        say(errno.errorcode.get(e.errno, str(e)))
    finally:
        if s: s.close()
"""

SERVER = r"""
import select, socket, sys
print("up", flush=True)
sys.stdin.readline()
tcp, udp = [], []
for port in (80, 81):
    s = socket.create_server(("0.0.0.0", port))
    tcp.append(s)
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.bind(("0.0.0.0", port))
    udp.append(u)
print("serving", flush=True)
peers = []
while True:
    for s in select.select(tcp + udp + peers, [], [])[0]:
        if s in tcp:
            peers.append(s.accept()[0])
        elif s in udp:
            # answers come from the address that was asked: one socket has one route
            data, who = s.recvfrom(100)
            s.sendto(data, who)
        else:
            try: data = s.recv(100)
            except OSError: data = b""
            if data: s.sendall(data)
            else:
                peers.remove(s)
                s.close()
"""


def sh(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def have_tools():
    return os.path.exists(VETH) and shutil.which("ip") and shutil.which("nft")


with_tools = needs(have_tools, "nsbox-veth (libnl-route-3-dev, libmnl-dev), ip and nft")


class Internet:
    """A namespace of its own behind this one."""

    def __init__(self):
        self.proc = subprocess.Popen(["unshare", "-n", sys.executable, "-c", SERVER],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.proc.stdout.readline() == "up\n"
        pid = str(self.proc.pid)
        sh("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1", "netns", pid)
        sh("ip", "addr", "add", HERE + "/24", "dev", "up0")
        sh("ip", "link", "set", "up0", "up")
        for words in (("addr", "add", PEER + "/24", "dev", "up1"),
                      ("addr", "add", OTHER + "/24", "dev", "up1"),
                      ("addr", "add", PRIVATE + "/32", "dev", "up1"),
                      ("link", "set", "lo", "up"), ("link", "set", "up1", "up"),
                      ("route", "add", "default", "via", HERE)):
            sh("nsenter", "-t", pid, "-n", "ip", *words)
        sh("ip", "route", "add", PRIVATE, "via", PEER)
        self.proc.stdin.write("go\n")
        self.proc.stdin.flush()
        assert self.proc.stdout.readline() == "serving\n"

    def end(self):
        self.proc.kill()
        self.proc.wait()


def set_forward(value):
    with open("/proc/self/ns/net"), open(FORWARD, "w") as f:
        assert os.readlink("/proc/self/ns/net") != REAL, "this is the host's own namespace"
        f.write(value)


def get_forward():
    with open(FORWARD) as f:
        return f.read().strip()


def try_all(flags, *tries):
    """What each try says in a box with these flags."""
    ran = box(["--net", "veth", *flags], "python3", "-c", CLIENT, *tries)
    return ran["stdout"].split(), ran


def bare(*tries):
    return subprocess.run([sys.executable, "-c", CLIENT, *tries], capture_output=True, text=True,
                          check=True).stdout.split()


def devices():
    return [d["ifname"] for d in json.loads(sh("ip", "-j", "link")) if d["ifname"] not in ("lo", "up0")]


def traces():
    """Of any box with a device: devices, tables, routes beyond those of the test."""
    return devices() + re.findall(r"table \S+ \S+", sh("nft", "list", "tables")) + \
        re.findall(r"\S+ dev nsbox\S+", sh("ip", "route"))


def gone(seconds=20):
    """The kernel takes a namespace apart in a worker, after the last process in it ended."""
    end = time.monotonic() + seconds * SLOWNESS
    while traces() and time.monotonic() < end:
        time.sleep(0.05)
    return traces()


class Live:
    """A box that runs: it says its address, then does one try for each line it is given."""

    def __init__(self, *flags):
        code = ("import socket, subprocess, sys\n"
                "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('203.0.113.2', 80))\n"
                "l = socket.create_server(('0.0.0.0', 8080))\n"
                "print(s.getsockname()[0], flush=True)\n"
                "for line in sys.stdin:\n"
                "    subprocess.run([sys.executable, '-c', sys.argv[1], *line.split()])\n")
        self.proc = subprocess.Popen(
            [NSBOX, "run", "-i", "--net", "veth", *flags, "--", "python3", "-c", code, CLIENT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environ())
        self.address = self.proc.stdout.readline().strip()
        assert self.address, self.proc.communicate()

    def ask(self, *tries):
        self.proc.stdin.write(" ".join(tries) + "\n")
        self.proc.stdin.flush()
        return [self.proc.stdout.readline().strip() for _ in tries]

    def keeper(self):
        """The nsbox-veth of this box."""
        path = f"/proc/{self.proc.pid}/task/{self.proc.pid}/children"
        with open(path) as f:
            for pid in f.read().split():
                with open(f"/proc/{pid}/comm") as comm:
                    if comm.read().strip() == "nsbox-veth":
                        return int(pid)
        return None

    def end(self):
        _, err = self.proc.communicate()
        return self.proc.returncode, err


@with_tools
def without_a_box_everything_answers(tap):
    for host in (PEER, OTHER, PRIVATE):
        tap.equal(bare(f"tcp,{host},80", f"tcp,{host},81"), ["ok", "ok"], f"control: {host} answers TCP")
    tap.equal(bare(f"udp,{PEER},80", f"udp,{PEER},81"), ["ok", "ok"], "control: the peer answers UDP")


@with_tools
def a_host_that_does_not_forward_is_refused_and_left_alone(tap):
    set_forward("0")
    ran = nsbox("run", "--net", "veth", "--allow-out", PEER, "--", "true")
    tap.equal((ran.rc, ran.out), (125, b""), "without ip_forward: refused with 125", ran)
    tap.ok(b"sysctl -w net.ipv4.ip_forward=1" in ran.err, "and says what to do", ran)
    tap.equal(get_forward(), "0", "and the sysctl is as it was")
    tap.equal(gone(), [], "and nothing is left")
    set_forward("1")


@with_tools
def what_is_allowed_is_reached_by_tcp_udp_and_ping(tap):
    got, ran = try_all(["--allow-out", "203.0.113.0/29"], f"tcp,{PEER},80", f"tcp,{PEER},81",
                       f"udp,{PEER},80", f"icmp,{PEER},0")
    tap.equal(got, ["ok"] * 4, "a CIDR that is allowed: TCP, UDP and ping", ran)
    tap.equal((ran["network"]["path"], ran["network"]["mode"]), ("veth", "filtered"),
              "the record says which path", ran)
    tap.equal(gone(), [], "nothing is left after a normal end")


@with_tools
def what_is_not_allowed_is_refused_at_once(tap):
    got, ran = try_all(["--allow-out", PEER], f"tcp,{OTHER},80", f"udp,{OTHER},80",
                       f"icmp,{OTHER},0", f"tcp,{HERE},80", f"tcp,{PEER},80")
    tap.equal(got, ["ECONNREFUSED", "EPERM", "EPERM", "ECONNREFUSED", "ok"],
              "an address that is not listed: TCP, UDP, ping; the host's own; and the one that is", ran)
    got, ran = try_all(["--allow-out", PEER + ":80"], f"tcp,{PEER},80", f"tcp,{PEER},81",
                       f"udp,{PEER},80", f"udp,{PEER},81", f"icmp,{PEER},0")
    tap.equal(got, ["ok", "ECONNREFUSED", "ok", "EPERM", "EPERM"],
              "a rule with a port is for that port, and not for ping", ran)
    got, ran = try_all(["--allow-out", PEER + ":80/udp"], f"tcp,{PEER},80", f"udp,{PEER},80")
    tap.equal(got, ["ECONNREFUSED", "ok"], "a rule with /udp is for UDP", ran)


@with_tools
def lists_have_the_precedence_of_the_policy(tap):
    both = ["--allow-out", "203.0.113.0/24", "--deny-out", OTHER]
    tries = (f"tcp,{PEER},80", f"tcp,{OTHER},80")
    got, ran = try_all(both, *tries)
    tap.equal(got, ["ok", "ok"], "allow wins", ran)
    got, ran = try_all([*both, "--set", "net.precedence=deny"], *tries)
    tap.equal(got, ["ok", "ECONNREFUSED"], "deny wins where the policy says so", ran)
    got, ran = try_all(["--deny-out", OTHER], *tries)
    tap.equal(got, ["ok", "ECONNREFUSED"], "a deny list alone denies what it lists", ran)
    got, ran = try_all([], *tries)
    tap.equal(got, ["ECONNREFUSED"] * 2, "without a list nothing is reached", ran)


@with_tools
def private_addresses_are_denied_unless_named(tap):
    tries = (f"tcp,{PRIVATE},80", f"icmp,{PRIVATE},0", "tcp,100.127.0.1,80", "tcp,169.254.169.254,80")
    for flags in (["--allow-out", "ALL_TRAFFIC"], ["--allow-out", "0.0.0.0/0"],
                  ["--allow-out", "10.0.0.0/8"], ["--deny-out", OTHER]):
        got, ran = try_all(flags, *tries)
        tap.equal(got, ["ECONNREFUSED", "EPERM", "ECONNREFUSED", "ECONNREFUSED"],
                  f"E30 E31 {' '.join(flags)}: private addresses stay denied", ran)
    got, ran = try_all(["--allow-out", "10.0.0.0/8", "--allow-private", PRIVATE], *tries[:2],
                       "tcp,10.9.9.8,80")
    tap.equal(got, ["ok", "ok", "ECONNREFUSED"], "net.allow_private lifts what it names alone", ran)
    got, ran = try_all(["--allow-out", PEER, "--allow-private", PRIVATE], tries[0])
    tap.equal(got, ["ECONNREFUSED"], "and allows nothing by itself", ran)


@with_tools
def ten_thousand_ranges_load_and_hold(tap):
    allow = [f"198.51.{i // 256}.{i % 256}" for i in range(0, 20000, 2)]
    allow += ["255.255.255.0/24", PEER + "/31", PEER, "203.0.113.0/29"]
    policy = os.path.join(SCRATCH, f"veth-{os.getpid()}.json")
    with open(policy, "w") as f:
        json.dump({"net": {"allow_out": allow}}, f)
    try:
        got, ran = try_all(["--policy", policy], f"tcp,{PEER},80", f"tcp,{OTHER},80")
    finally:
        os.unlink(policy)
    tap.equal(got, ["ok", "ECONNREFUSED"],
              "10,004 entries, some within others, one up to the last address", ran)


@with_tools
def the_host_reaches_a_server_in_the_box_and_nobody_behind_it(tap):
    b = Live("--allow-out", PEER)
    pid = subprocess.run([sys.executable, "-c",
                          "import socket, sys; socket.create_connection((sys.argv[1], 8080), 20)",
                          b.address], capture_output=True)
    tap.equal(pid.returncode, 0, "the host connects to a server in the box", pid.stderr)
    tried = subprocess.run(["nsenter", "-t", str(NET.proc.pid), "-n", sys.executable, "-c",
                            "import socket, sys\n"
                            "try: socket.create_connection((sys.argv[1], 8080), 3); print('connected')\n"
                            "except OSError as e: print(type(e).__name__)", b.address],
                           capture_output=True, text=True)
    tap.equal(tried.stdout, "TimeoutError\n", "from beyond the host nothing comes in", tried)
    b.end()
    tap.equal(gone(), [], "nothing is left")


@with_tools
def two_boxes_have_rules_and_addresses_of_their_own(tap):
    a, b = Live("--allow-out", PEER), Live("--allow-out", OTHER)
    tap.ok(a.address != b.address, "two addresses", f"{a.address} {b.address}")
    tap.equal(a.ask(f"tcp,{PEER},80", f"tcp,{OTHER},80"), ["ok", "ECONNREFUSED"], "the first")
    tap.equal(b.ask(f"tcp,{PEER},80", f"tcp,{OTHER},80"), ["ECONNREFUSED", "ok"], "the second")
    tap.equal(a.ask(f"tcp,{b.address},8080"), ["ECONNREFUSED"], "neither reaches the other")
    tap.equal(len(devices()), 2, "two devices")
    a.end()
    tap.equal(b.ask(f"tcp,{OTHER},80"), ["ok"], "the end of one is not that of the other")
    b.end()
    tap.equal(gone(), [], "nothing is left")


@with_tools
def a_killed_launcher_leaves_nothing(tap):
    b = Live("--allow-out", PEER)
    keeper = b.keeper()
    tap.ok(keeper and traces(), "control: there is a keeper, a device and a table")
    b.proc.send_signal(signal.SIGKILL)
    b.end()
    tap.equal(gone(), [], "kill -9 of the launcher: nothing is left")
    end = time.monotonic() + 20 * SLOWNESS
    while os.path.exists(f"/proc/{keeper}") and time.monotonic() < end:
        try:
            os.waitpid(keeper, os.WNOHANG)  # ours, as the reaper of orphans
        except ChildProcessError:
            pass
        time.sleep(0.05)
    tap.ok(not os.path.exists(f"/proc/{keeper}"), "and nsbox-veth ends by itself")


@with_tools
def a_killed_keeper_cuts_the_box_off_and_opens_nothing(tap):
    b = Live("--allow-out", PEER)
    tap.equal(b.ask(f"tcp,{PEER},80", f"tcp,{OTHER},80"), ["ok", "ECONNREFUSED"], "control: with its keeper")
    os.kill(b.keeper(), signal.SIGKILL)
    end = time.monotonic() + 20 * SLOWNESS
    while "nsbox" in sh("nft", "list", "tables") and time.monotonic() < end:
        time.sleep(0.05)
    tap.equal(sh("nft", "list", "tables"), "", "kill -9 of nsbox-veth: its table dies with it")
    tap.equal(b.ask(f"tcp,{OTHER},80", f"udp,{OTHER},80", f"tcp,{HERE},80"),
              ["ECONNREFUSED", "EPERM", "ECONNREFUSED"], "the rules in the box still hold")
    rc, err = b.end()
    tap.equal(rc, 0, "the box ends as ever", err)
    tap.ok("nsbox-veth ended" in err, "and a note says what happened", err)
    tap.equal(gone(), [], "nothing is left")


@with_tools
def the_box_cannot_change_its_rules(tap):
    code = ("import errno, socket\n"
            "def say(f):\n"
            "    try: f(); print('ok')\n"
            "    except OSError as e: print(errno.errorcode[e.errno])\n"
            "say(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))\n"
            "say(lambda: open('/proc/sys/net/ipv4/ip_forward', 'w').close())\n"
            "say(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))\n")
    ran = box(["--net", "veth", "--allow-out", PEER], "python3", "-c", code)
    got = ran["stdout"].split()
    tap.equal(got[0], "EPROTONOSUPPORT", "no socket to nf_tables", ran)
    tap.among(got[1], ("ENOENT", "EROFS", "EACCES", "EPERM"), "no sysctl", ran)
    tap.equal(got[2], "EAFNOSUPPORT", "no packet socket", ran)


@with_tools
def the_name_servers_of_the_policy_are_asked(tap):
    ran = box(["--net", "veth", "--allow-out", PEER, "--set", f"net.resolvers={PEER}",
               "--set", "net.resolvers=127.0.0.53"], "cat", "/etc/resolv.conf")
    tap.equal(ran["stdout"], f"nameserver {PEER}\n", "those that the box can reach", ran)


def refused(tap, flags, word, what):
    ran = nsbox("run", "--net", "veth", *flags, "--", "true")
    tap.equal((ran.rc, ran.out), (125, b""), f"{what}: refused with 125", ran)
    tap.ok(word in ran.err, f"{what}: says why", ran)
    tap.equal(ran.err.count(b"\n"), 1, f"{what}: in one line", ran)


def what_a_packet_filter_cannot_do_is_refused(tap):
    for entry in ("example.org", "*.example.org", ".example.org", "2001:db8::/32"):
        refused(tap, ["--allow-out", entry], entry.encode(), f"--allow-out {entry}")
    refused(tap, ["--deny-out", "example.org"], b"example.org", "--deny-out example.org")
    refused(tap, ["--publish", "8080:80"], b"net.publish", "--publish")
    refused(tap, ["--set", "net.bytes=1M"], b"net.bytes", "net.bytes")
    refused(tap, ["--set", "net.proxy=http://192.0.2.1:3128"], b"net.proxy", "net.proxy")
    refused(tap, ["--net", "disabled"], b"net.mode", "net.mode=disabled")


def an_ordinary_user_is_refused_with_a_remedy(tap):
    refused(tap, ["--allow-out", PEER], b"root", "an ordinary user")


REAL = os.readlink("/proc/self/ns/net")
NET = None

if __name__ == "__main__":
    become_reaper()
    if AS == "root":
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) < 0:
            raise OSError(ctypes.get_errno(), "unshare")
        if have_tools():
            sh("ip", "link", "set", "lo", "up")
            NET = Internet()
            atexit.register(NET.end)
            set_forward("1")
        run_tests([
            without_a_box_everything_answers, a_host_that_does_not_forward_is_refused_and_left_alone,
            what_is_allowed_is_reached_by_tcp_udp_and_ping, what_is_not_allowed_is_refused_at_once,
            lists_have_the_precedence_of_the_policy, private_addresses_are_denied_unless_named,
            ten_thousand_ranges_load_and_hold,
            the_host_reaches_a_server_in_the_box_and_nobody_behind_it,
            two_boxes_have_rules_and_addresses_of_their_own, a_killed_launcher_leaves_nothing,
            a_killed_keeper_cuts_the_box_off_and_opens_nothing, the_box_cannot_change_its_rules,
            the_name_servers_of_the_policy_are_asked, what_a_packet_filter_cannot_do_is_refused])
    run_tests([what_a_packet_filter_cannot_do_is_refused, an_ordinary_user_is_refused_with_a_remedy])
