#!/usr/bin/python3
"""A test internet: `testnet.py CMD...` runs CMD on a host that has one, and nothing else.

The host side and the internet are two fresh network namespaces joined by a veth pair; the
addresses are those for documentation (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24,
2001:db8::/32), which nsbox holds for public, and private and metadata addresses that
really answer, so that their refusal in a box means something. CMD has a resolv.conf and a
hosts file of its own in a private mount namespace. Nothing of the machine is changed and
no packet leaves it. Runs as root, or as a user (then CMD is in a user namespace that maps
this user alone).

Imported by a suite: Internet() asks the servers (netservers.py) what arrived.
"""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

HOST4, HOST6 = "192.0.2.1", "2001:db8:0:1::1"
GATE4, GATE6 = "192.0.2.254", "2001:db8:0:1::fe"
PROXY = GATE4
# Where the internet answers: everything in these, whoever is asked for.
ANSWERING = ("192.0.2.53/32", "198.51.100.0/24", "203.0.113.0/24", "10.0.0.0/8", "172.16.0.0/12",
             "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "9.9.9.9/32", "8.8.8.8/32")
ANSWERING6 = ("2001:db8:1::/48", "2001:db8:66::/48", "fd00::/8", "64:ff9b::/96", "2002::/16", "2606:4700::/32")
SILENT = "198.51.100.99/32"
PRIVATE4, METADATA4, METADATA6 = "10.1.2.3", "169.254.169.254", "fd00:ec2::254"
READY_SECONDS = 30

HOSTS = """127.0.0.1 localhost
::1 localhost
198.51.100.77 inhosts.good.test
10.1.2.3 privatehosts.good.test
"""


# --- the program: namespaces, addresses, servers -----------------------------------

def sh(text):
    subprocess.run(["sh", "-ec", text], check=True)


def certificates(folder):
    """A CA of this run, and one certificate for every name of the test internet."""
    names = ",".join(f"DNS:{n}" for n in ("good.test", "*.good.test", "other.test", "evil.test", "*.evil.test",
                                          "fronted.test", "*.many.test"))
    with open(f"{folder}/san", "w", encoding="ascii") as f:
        f.write(f"subjectAltName={names},IP:198.51.100.10,IP:203.0.113.66\n")
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    sh(f"""cd {folder}
        openssl req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj "/CN=nsbox test CA" \
            -addext keyUsage=critical,keyCertSign,cRLSign 2>log
        openssl req {key} -keyout server.key -out server.csr -subj /CN=good.test 2>>log
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san \
            -out server.pem 2>>log""")


def host_side():
    """This namespace: one link up, with the routes of an ordinary host."""
    sh(f"""ip link set lo up
        ip addr add {HOST4}/24 dev up0
        ip addr add {HOST6}/64 dev up0 nodad
        ip link set up0 up
        ip route add default via {GATE4}
        ip -6 route add default via {GATE6}""")


def internet_side():
    lines = ["ip link set lo up", f"ip addr add {GATE4}/24 dev down0",
             f"ip addr add {GATE6}/64 dev down0 nodad", "ip link set down0 up",
             *(f"ip route add local {net} dev lo" for net in ANSWERING),
             *(f"ip -6 route add local {net} dev lo" for net in ANSWERING6),
             f"ip route add blackhole {SILENT} table local 2>/dev/null || ip route add blackhole {SILENT}"]
    sh("\n".join(lines))


def start_internet(folder):
    """The servers in their namespace; they end with the pipe to them."""
    inner = [sys.executable, os.path.abspath(__file__), "--internet", folder]
    servers = subprocess.Popen(["unshare", "-n", *inner], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, bufsize=1)
    if servers.stdout.readline() != "apart\n":
        raise RuntimeError("testnet: no second network namespace")
    sh(f"ip link add up0 type veth peer name down0 netns {servers.pid}")
    host_side()
    servers.stdin.write("go\n")
    if servers.stdout.readline() != "ready\n":
        raise RuntimeError("testnet: the servers did not start")
    return servers


def internet(folder):
    """The other process: waits for its link, then becomes the servers."""
    print("apart", flush=True)
    if os.read(0, 3) != b"go\n":
        return 1
    internet_side()
    os.execv(sys.executable, [sys.executable, os.path.join(HERE, "netservers.py"), folder])
    return 1


def own_files(folder):
    for name, text in (("resolv.conf", "nameserver 192.0.2.53\noptions timeout:5 attempts:2\n"),
                       ("hosts", HOSTS)):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        sh(f"mount --bind {path} /etc/{name}")


def wait_for_link():
    """Both families must carry before a test counts on them: a connect tells."""
    end = time.monotonic() + READY_SECONDS
    for address in ("198.51.100.10", "2001:db8:1::10"):
        while True:
            try:
                socket.create_connection((address, 80), timeout=2).close()
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)


def apart(argv):
    """Again, in fresh namespaces. A user gets them as root of a user namespace."""
    how = ["unshare", "-n", "-m", "--propagation", "private"]
    if os.geteuid():
        how = ["unshare", "-Urnm", "--propagation", "private"]
    os.environ["NSBOX_TESTNET_CALLER"] = f"{os.geteuid()} {os.getegid()}"
    os.execvp(how[0], [*how, sys.executable, os.path.abspath(__file__), "--apart", *argv])


def inside(command):
    if ctypes.CDLL(None).prctl(1, 15) != 0:     # PR_SET_PDEATHSIG: with the runner
        raise OSError("PR_SET_PDEATHSIG")
    uid, gid = os.environ.pop("NSBOX_TESTNET_CALLER").split()
    folder = tempfile.mkdtemp(prefix="testnet.", dir=os.environ.get("NSBOX_TEST_TMP") or "/var/tmp")
    servers = None
    try:
        os.chmod(folder, 0o755)
        os.makedirs(f"{folder}/www/files")
        os.chmod(f"{folder}/www/files", 0o1777)
        certificates(folder)
        servers = start_internet(folder)
        own_files(folder)
        wait_for_link()
        back = [] if uid == "0" else ["unshare", "-U", f"--map-user={uid}", f"--map-group={gid}"]
        return subprocess.run([*back, *command], env={**os.environ, "NSBOX_TESTNET": folder}).returncode
    finally:
        if servers:
            servers.stdin.close()
            servers.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def main(argv):
    if argv[:1] == ["--internet"]:
        return internet(argv[1])
    if argv[:1] == ["--apart"]:
        status = inside(argv[1:])
        return 128 - status if status < 0 else status
    if not argv:
        print("usage: testnet.py CMD...", file=sys.stderr)
        return 2
    return apart(argv)


# --- what a suite asks --------------------------------------------------------------

class Internet:
    """The log of the servers, from the last clear() on."""

    def __init__(self):
        self.folder = os.environ["NSBOX_TESTNET"]   # set by this file's program
        self.ca = os.path.join(self.folder, "ca.pem")
        self.files = os.path.join(self.folder, "www/files")

    def _ask(self, what):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(self.folder, "control"))
            s.sendall(what.encode() + b"\n")
            with s.makefile("rb") as answer:
                return json.loads(answer.readline())

    def clear(self):
        self._ask("clear")

    def events(self, kind=None):
        return [e for e in self._ask("log") if kind in (None, e["kind"])]

    def lookups(self, name=None):
        """Names asked for, sorted, each once; with a name: how often it was asked for."""
        names = [e["name"] for e in self.events("dns") if e["name"]]
        return names.count(name) if name else sorted(set(names))

    def connections(self, *kinds):
        """[(kind, address, port)] of what was connected to."""
        return [(e["kind"], e["to"], e["port"]) for e in self.events()
                if "port" in e and (not kinds or e["kind"] in kinds)]

    def echoes_open(self):
        return self._ask("open")


def counters(path):
    """/proc/net/snmp: a line of names, a line of numbers, for each protocol."""
    with open(path, encoding="ascii") as f:
        lines = [line.split() for line in f]
    return {(names[0].rstrip(":"), name): int(value) for names, values in zip(lines[::2], lines[1::2])
            for name, value in zip(names[1:], values[1:])}


def connections_under_way():
    """Those of this host that may still send: neither listening nor over (TIME_WAIT)."""
    count = 0
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as f:
            count += sum(line.split()[3] not in ("06", "0A") for line in list(f)[1:])
    return count


def packets_sent():
    """TCP segments and datagrams that left this host so far, once earlier connections are over.
    Not ARP and its like, which the kernel sends when it wants; nor what went over lo."""
    end = time.monotonic() + READY_SECONDS
    while connections_under_way():
        if time.monotonic() > end:
            raise AssertionError("a connection of the host does not end")
        time.sleep(0.01)
    four = counters("/proc/net/snmp")
    with open("/proc/net/snmp6", encoding="ascii") as f:
        six = dict(line.split() for line in f)
    with open("/proc/net/dev", encoding="ascii") as f:
        own = next(int(line.split()[10]) for line in f if line.split()[0] == "lo:")
    return (four["Tcp", "OutSegs"] + four["Tcp", "RetransSegs"] + four["Udp", "OutDatagrams"] +
            int(six["Udp6OutDatagrams"])) - own


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
