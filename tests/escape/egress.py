# as: root user
# in: testnet
"""Attacks by address, by packet and on the rules themselves (A14, A15, E29-E36).

Where a refusal is asked for, the same act without a box succeeds: the private and the
metadata addresses of the test internet answer.
"""

import os
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import box, run  # noqa: E402
from egress import CLIENT, REFUSED, allow, both, denials, has_denial, inside, lines_of, outside, words  # noqa: E402
from host import become_reaper  # noqa: E402
from tap import needs, run_tests  # noqa: E402
from testnet import Internet, packets_sent  # noqa: E402

NET = Internet()
GOOD = "api.good.test"
PYTHON = "/usr/bin/python3"

# The metadata address as clients write it; all mean 169.254.169.254, the last three fd00:ec2::254 or a carrier.
METADATA = ("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518",
            "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "fd00:ec2::254")
PRIVATE = ("10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1")


def metadata_in_every_spelling(tap):
    for mode, flags in (("open", ["--net", "open"]), ("a range that has them", allow("0.0.0.0/0", "::/0")),
                        ("ALL_TRAFFIC", allow("ALL_TRAFFIC")), ("by address", allow("169.254.169.254", "fd00:ec2::254"))):
        ran = both(tap, flags, [(f"connect {a} 80", "ok", REFUSED) for a in METADATA],
                   f"A15 E31 {mode}", client=CLIENT)
    has_denial(tap, ran, "connect 169.254.169.254:80", "re:.*(always denied: link-local 169.254.0.0/16).*",
               "--allow-private 169.254.169.254", "A15 E31 all spellings of IPv4 are one address in the record")
    both(tap, ["--net", "open"], [(f"connect {a} 80", "ok", REFUSED) for a in PRIVATE], "E30 D12", client=CLIENT)
    both(tap, ["--net", "open"], [(f"udp {a} 7777 x", "echo x", REFUSED) for a in
                                  ("169.254.169.254", "10.1.2.3", "fd00:ec2::254")], "E11 E31 UDP", client=CLIENT)
    both(tap, ["--net", "open", "--allow-private", "10.1.2.0/24", "--allow-private", "fd00:ec2::254"], [
        ("connect 10.1.2.3 80", "ok", "ok"), ("connect fd00:ec2::254 80", "ok", "ok"),
        ("udp 10.1.2.3 7777 x", "echo x", "echo x"), ("connect 10.1.3.3 80", "ok", REFUSED),
    ], "E7 lifted by --allow-private", client=CLIENT)


def the_hosts_own_servers(tap):
    """What listens on the host: on its loopback, on its address, and at its gateway's."""
    servers = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        s = socket.socket(family)
        s.bind((address, 4711))
        s.listen()
        servers.append(s)
    both(tap, ["--net", "open"], [
        ("connect 127.0.0.1 4711", "ok", REFUSED), ("connect ::1 4711", "ok", REFUSED),
        ("connect 0.0.0.0 4711", "ok", REFUSED), ("connect ::ffff:127.0.0.1 4711", "ok", REFUSED),
        ("connect 0 4711", "ok", REFUSED), ("connect 127.1 4711", "ok", REFUSED),
    ], "E30 the host's loopback", client=CLIENT)
    for s in servers:
        s.close()


def names_carry_nothing_out(tap):
    """A14: no part of a refused name reaches any server, whatever asks and how."""
    question = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0)
    label = b"c2VjcmV0" * 7
    name = b"".join(bytes([len(p)]) + p for p in (label, label, label, b"evil", b"test")) + b"\0"
    script = f"""
import socket, struct
q = {question + name!r} + struct.pack("!2H", 16, 1)
for server in ("127.0.0.1", "203.0.113.53", "8.8.8.8", "9.9.9.9"):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.connect((server, 53))
    try:
        s.send(q); a = s.recv(512); print(server, a[3] & 15)
    except OSError as e: print(server, type(e).__name__)
for junk in (b"", b"x", q[:12], q[:40], q + b"tail" * 100, b"\\xff" * 512, q[:12] + b"\\xc0\\x0c\\0\\x01\\0\\x01"):
    s.send(junk)
s = socket.create_connection(("203.0.113.53", 53), 20); s.sendall(struct.pack("!H", len(q)) + q)
print("tcp", s.recv(512)[5] & 15)
print(socket.getaddrinfo("{GOOD}", 80)[0][4][1])
"""
    NET.clear()
    bare = run([PYTHON, "-c", script.replace('"127.0.0.1", ', "")])
    tap.equal(len(NET.events("dns")) > 3, True, "A14 E29 without a box the questions arrive", bare)
    inside(allow(GOOD), f"connect {GOOD} 80")       # the way is known: no neighbour is looked for
    NET.clear()
    before = packets_sent()
    ran = box(allow(GOOD), PYTHON, "-c", script)
    tap.equal(ran["stdout"].split(), "127.0.0.1 3 203.0.113.53 3 8.8.8.8 3 9.9.9.9 3 tcp 3 80".split(),
              "A14 E29 in a box all of them are NXDOMAIN, and junk stops nothing", ran)
    tap.equal((NET.events(), packets_sent() - before), ([], 0), "A14 E29 not one packet leaves for it")


def no_packets_of_its_own(tap):
    """The rules, the routes, raw sockets, marks: as the root of a fresh network namespace
    could use them, as nobody in a box can."""
    acts = ("socket 2 3 255", "rules get", "rules delete", "route", "leave net", "option 1 36 1", "option 0 19 1",
            "link")
    control = run(["unshare", "-Urn", CLIENT, *words(acts)])
    tap.equal(lines_of(control), ["ok", "ok", "ok", "errno=ESRCH", "ok", "ok", "ok", "ok"],
              "E32 the root of a fresh namespace may do all of it", control)
    want = ["errno=EPERM", "errno=EPROTONOSUPPORT", "errno=EPROTONOSUPPORT", "errno=EPERM", "errno=EPERM",
            "errno=EPERM", "errno=EPERM", "errno=EPERM"]
    for mode, flags in (("filtered", allow(GOOD)), ("open", ["--net", "open"])):
        got, ran = inside(flags, *acts)
        tap.equal(got, want, f"E17 E32 {mode}: raw socket, rules, route, namespace, mark, transparent, link", ran)
    got, ran = inside(allow(GOOD), "socket 17 3 3", "socket 17 2 3", "socket 2 3 1", "socket 10 3 58", "socket 16 3 12")
    tap.ok(all(g.startswith("errno=E") for g in got) and len(got) == 5,
           "E16 no packet socket, no ICMP socket, no netfilter netlink", ran)
    control = run(["unshare", "-Urn", CLIENT, *words(("socket 17 3 3", "socket 17 2 3", "socket 2 3 1"))])
    tap.equal(lines_of(control), ["ok"] * 3, "E16 without a box those are there", control)


@needs(lambda: os.path.exists("/usr/sbin/nft"), "nft")
def nft_in_a_box(tap):
    bare = run(["unshare", "-Urn", "sh", "-c", "nft flush ruleset && nft list ruleset"])
    tap.equal(bare.rc, 0, "nft works for the root of a fresh namespace", bare)
    for command in ("flush ruleset", "list ruleset", "add table inet mine"):
        ran = box(allow(GOOD), "/usr/sbin/nft", *command.split())
        tap.ok(ran["exit_code"] not in (0, None) and ran["stdout"] == "", f"nft {command} fails in a box", ran)
    ran = box(allow(GOOD), "sh", "-c", "nft flush ruleset; exec 3<>/dev/null; /usr/bin/getent ahosts api.good.test")
    tap.ok("198.18." in ran["stdout"], "and the network works on after it", ran)


def nothing_leaves_its_namespace(tap):
    got, ran = inside(allow(GOOD), "setns /proc/1/ns/net", "setns /proc/self/ns/net", "leave user", "leave net")
    tap.ok(len(got) == 4 and all(g.startswith("errno=E") for g in got), "E11 no other network namespace can be entered or made",
           ran)
    ran = box(allow(GOOD), "sh", "-c", "readlink /proc/self/ns/net; ls -l /proc/self/fd | grep -c socket")
    tap.ok(ran["stdout"].split()[0] != os.readlink("/proc/self/ns/net"), "E19 the box's is not the host's", ran)
    tap.equal(ran["stdout"].split()[-1], "0", "E20 no socket of the inlet is inherited", ran)
    ran = box(allow(GOOD), "sh", "-c", "for p in /proc/[0-9]*; do cat $p/comm; done")
    tap.ok("nsbox-egress" not in ran["stdout"], "A19 the process that serves it cannot be seen", ran)


def the_supervisors_ports(tap):
    """Port 2 of any address is where let-in connections go: by its own number it is closed."""
    addresses = ("127.0.0.1", "::1", "198.19.255.254", "203.0.113.66", "127.0.0.2")
    script = ("import socket, sys\n"
              "for a in sys.argv[1:]:\n"
              "    try: s = socket.create_connection((a, 2), 1); print('connected', s.recv(9))\n"
              "    except (ConnectionError, TimeoutError): print('nowhere')\n")
    ran = box(allow(GOOD), PYTHON, "-c", script, *addresses)
    tap.equal(ran["stdout"].splitlines(), ["nowhere"] * len(addresses), "E32 port 2 of any address leads nowhere", ran)
    got, ran = inside(allow(GOOD), "bind 127.0.0.1 2", "bind 0.0.0.0 2", "bind 127.0.0.1 53", "bind :: 53")
    tap.ok(len(got) == 4 and all(g in ("errno=EACCES", "errno=EADDRINUSE") for g in got),
           "E32 nothing in the box can take them", ran)
    got, ran = inside(allow(GOOD), "sendto 127.0.0.1 2 x", "sendto 198.19.255.254 2 x", f"connect {GOOD} 80", client=CLIENT)
    tap.equal(got[-1:], ["ok"], "E32 datagrams to port 2 disturb nothing", ran)


def sources_and_fast_open(tap):
    """A source address of one's own choice, and a destination only the first packet has."""
    bare = outside("fastopen 203.0.113.66 80", "from 192.0.2.1 203.0.113.66 80")
    tap.equal(bare, ["ok", "ok"], "E32 both are possible without a box")
    got, ran = inside(allow(GOOD), "fastopen 203.0.113.66 80", "fastopen 10.1.2.3 80",
                      "from 192.0.2.1 203.0.113.66 80", "from 127.0.0.9 203.0.113.66 80",
                      "from 198.51.100.10 203.0.113.66 80", f"from 127.0.0.9 {GOOD} 80")
    for act, answer in zip(("data in the SYN", "data in the SYN to a private address", "the host's address as source",
                            "loopback as source", "an allowed address as source"), got):
        tap.among(answer, (REFUSED, "errno=EINVAL", "errno=EADDRNOTAVAIL"), f"E32 {act}: refused", ran)
    NET.clear()
    inside(allow(GOOD), "fastopen 203.0.113.66 80", "from 127.0.0.9 203.0.113.66 80")
    tap.equal(NET.events(), [], "E32 and nothing arrives")


def unknown_fake_addresses(tap):
    """Addresses of the box's own ranges that stand for no name."""
    got, ran = inside(["--net", "open"], "connect 198.18.77.77 80", "connect 2001:2::7777 80", "connect 198.19.255.254 80",
                      "udp 198.18.77.77 54 x", "udp 198.19.255.254 54 x", client=CLIENT)
    tap.equal(got, [REFUSED] * 5, "E31 a fake address that was never given out is refused, and the box's own", ran)


def flags_and_the_list_that_wins(tap):
    """E6 and D9-D11 as far as packets show them; the matcher's own tests have the rest."""
    evil, other = "connect 203.0.113.66 80", "connect 198.51.100.11 80"
    for what, flags, want in (
            ("E6 a deny list alone denies just that", ["--net", "filtered", "--deny-out", "203.0.113.0/24"], [REFUSED, "ok"]),
            ("E6 D9 an allow list alone denies the rest", allow("203.0.113.66"), ["ok", REFUSED]),
            ("E6 D11 a broad allow beats a narrower deny", [*allow("ALL_TRAFFIC"), "--deny-out", "203.0.113.66"], ["ok", "ok"]),
            ("D11 net.precedence=deny turns that round",
             [*allow("ALL_TRAFFIC"), "--deny-out", "203.0.113.66", "--set", "net.precedence=deny"], [REFUSED, "ok"]),
            ("E17 a range up to the last address", allow("128.0.0.0/1"), ["ok", "ok"]),
            ("E5 E6 deny all", ["--net", "filtered", "--deny-out", "0.0.0.0/0", "--deny-out", "::/0"], [REFUSED, REFUSED]),
            ("E6 ALL_TRAFFIC in any case", ["--net", "filtered", "--deny-out", "all_traffic"],
             [REFUSED, REFUSED])):
        got, ran = inside(flags, evil, other)
        tap.equal(got, want, what, ran)
    got, ran = inside(["--net", "filtered", "--deny-out", "evil.test"], "connect evil.test 80", "connect other.test 80")
    tap.ok(got[0].startswith("eai=") and got[1] == "ok", "D10 a name in deny_out", ran)
    has_denial(tap, ran, "lookup evil.test", "net.deny_out=evil.test", "", "D10 no flag is promised against it")
    ran = box([], "/usr/bin/getent", "ahosts", GOOD)
    tap.equal((ran["exit_code"], denials(ran)), (2, []), "D9 without --net nothing is there", ran)


if __name__ == "__main__":
    become_reaper()
    run_tests([metadata_in_every_spelling, the_hosts_own_servers, names_carry_nothing_out, no_packets_of_its_own,
               nft_in_a_box, nothing_leaves_its_namespace, the_supervisors_ports, sources_and_fast_open,
               unknown_fake_addresses, flags_and_the_list_that_wins])
