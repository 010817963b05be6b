"""The names of the test internet and a DNS server for them, over UDP and TCP.

The server answers on every address and notes every question that arrives, so "no packet
went upstream" is exact. Part of tests/harness/netservers.py; no real name server is asked.
"""

import asyncio
import ipaddress
import socket
import struct

A, CNAME, SOA, AAAA = 1, 5, 6, 28
GOOD4, GOOD6 = "198.51.100.10", "2001:db8:1::10"
OTHER4 = "198.51.100.11"
EVIL4, EVIL6 = "203.0.113.66", "2001:db8:66::66"
DEADHOST4 = "198.51.100.99"     # packets to it vanish
NAME_SERVER = "192.0.2.53"
SLOW_SECONDS = 3
CHAIN_LONG, CHAIN_SHORT = 17, 8

# name -> addresses; a name that is not here does not exist.
ZONE = {
    "good.test": [GOOD4, GOOD6],
    "api.good.test": [GOOD4, GOOD6],
    "www.good.test": [OTHER4],
    "a.b.good.test": [OTHER4],
    "other.test": [OTHER4],
    "evil.test": [EVIL4, EVIL6],
    "www.evil.test": [EVIL4, EVIL6],
    "fronted.test": [GOOD4, GOOD6],     # another site at the good one's address
    "v6only.good.test": [GOOD6],
    "v4only.good.test": [GOOD4],
    "loopback.good.test": ["127.0.0.1", "::1"],
    "private.good.test": ["10.1.2.3"],
    "ula.good.test": ["fd00:1::3"],
    "metadata.good.test": ["169.254.169.254"],
    "metadata6.good.test": ["fd00:ec2::254"],
    "mapped.good.test": ["::ffff:10.1.2.3"],
    "nat64.good.test": ["64:ff9b::a01:203"],
    "mixed.good.test": ["10.1.2.3", GOOD4],
    "deadhost.good.test": [DEADHOST4],
    "slow.good.test": [GOOD4],
    "trunc.good.test": [GOOD4],
    "empty.good.test": [],
}
ALIASES = {
    "alias.good.test": "api.good.test",
    "alias.private.test": "private.good.test",
    "loop.good.test": "loop.other.test",
    "loop.other.test": "loop.good.test",
    "self.good.test": "self.good.test",
    "short.good.test": "s1.chain.test",
    "long.good.test": "l1.chain.test",
}
for prefix, links in (("s", CHAIN_SHORT), ("l", CHAIN_LONG)):
    for step in range(1, links):
        ALIASES[f"{prefix}{step}.chain.test"] = (f"{prefix}{step + 1}.chain.test" if step + 1 < links
                                                 else "api.good.test")
FAILING = {"servfail.good.test": 2, "refused.good.test": 5}
# The first answer is public, every later one is not.
REBINDING = {"rebind.good.test": [[GOOD4], ["127.0.0.1"]],
             "rebind10.good.test": [[GOOD4], ["10.1.2.3"]]}


def encode_name(name):
    out = b""
    for label in name.split(".") if name else ():
        out += bytes([len(label)]) + label.encode("ascii")
    return out + b"\0"


def read_question(data):
    """(id, name, type, end of the question) of a query."""
    at, labels = 12, []
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
        at += 1 + data[at]
    qtype, _ = struct.unpack_from("!HH", data, at + 1)
    return struct.unpack_from("!H", data)[0], ".".join(labels).lower(), qtype, at + 5


def record(name, rtype, data, ttl):
    return encode_name(name) + struct.pack("!HHIH", rtype, 1, ttl, len(data)) + data


class Zones:
    """Answers by the tables above; @note(event) is told of every question."""

    def __init__(self, note):
        self.note = note
        self.asked = {}

    def addresses(self, name):
        """What a name has now; None: there is no such name."""
        if name in REBINDING:
            turns = REBINDING[name]
            return turns[min(self.asked.get(name, 0), len(turns) - 1)]
        if name.endswith(".many.test"):
            return [OTHER4]
        return ZONE.get(name)

    def chain(self, name):
        """The aliases from @name on, and where they end: ([(name, target)], name)."""
        links = []
        while name in ALIASES and len(links) < 32:
            links.append((name, ALIASES[name]))
            name = ALIASES[name]
            if name == links[0][0]:
                break
        return links, name

    def answer(self, query, transport):
        """Bytes to send, or None for silence, and the seconds to wait before."""
        try:
            number, name, qtype, end = read_question(query)
        except (IndexError, struct.error):
            self.note({"kind": "dns", "name": None, "type": 0, "over": transport})
            return None, 0
        self.note({"kind": "dns", "name": name, "type": qtype, "over": transport})
        if name.startswith("dead."):
            return None, 0
        rcode, records = FAILING.get(name, 0), []
        links, last = self.chain(name)
        found = self.addresses(last)
        ttl = 1 if name in REBINDING else 60
        if found is None and not links and not rcode:
            rcode = 3
        for owner, target in links:
            records.append(record(owner, CNAME, encode_name(target), ttl))
        for text in (found or []) if not rcode else []:
            raw = ipaddress.ip_address(text)
            if qtype == (A if raw.version == 4 else AAAA):
                records.append(record(last, qtype, raw.packed, ttl))
        if name in REBINDING and qtype == A:
            self.asked[name] = self.asked.get(name, 0) + 1
        flags = 0x8180 | rcode
        if name == "trunc.good.test" and transport == "udp":
            flags, records = flags | 0x200, []
        authority = b""
        if not records:
            soa = encode_name("ns.test") + encode_name("root.test") + struct.pack("!5I", 1, 60, 60, 60, 1)
            authority = record("test", SOA, soa, 1)
        head = struct.pack("!6H", number, flags, 1, len(records), 1 if authority else 0, 0)
        wait = SLOW_SECONDS if name.startswith("slow.") else 0
        return head + query[12:end] + b"".join(records) + authority, wait


def packet_socket(family, port):
    """A UDP socket for all addresses that says to which one a datagram came."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND: to answer from any address
    else:
        sock.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sock.bind(("", port))
    sock.setblocking(False)
    return sock


def serve_packets(loop, family, port, handle):
    """handle(data, destination, peer, reply) for each datagram; the reply leaves from where
    the datagram went."""
    sock = packet_socket(family, port)

    def ready():
        try:
            data, ancillary, _, peer = sock.recvmsg(65535, 256)
        except OSError:
            return
        info = ancillary[0][2]
        if family == socket.AF_INET:
            where = socket.inet_ntop(family, info[8:12])
            back = [(socket.IPPROTO_IP, 8, struct.pack("I", 0) + info[8:12] + b"\0\0\0\0")]
        else:
            where = socket.inet_ntop(family, info[:16])
            back = [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, info[:16] + b"\0\0\0\0")]
        handle(data, where, peer, lambda answer: sock.sendmsg([answer], back, 0, peer))

    loop.add_reader(sock, ready)


async def serve_dns(zones):
    loop = asyncio.get_running_loop()

    def asked(data, _where, _peer, reply):
        answer, wait = zones.answer(data, "udp")
        if answer:
            loop.call_later(wait, reply, answer)

    async def stream(reader, writer):
        try:
            while True:
                size, = struct.unpack("!H", await reader.readexactly(2))
                answer, wait = zones.answer(await reader.readexactly(size), "tcp")
                await asyncio.sleep(wait)
                if answer:
                    writer.write(struct.pack("!H", len(answer)) + answer)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    for family in (socket.AF_INET, socket.AF_INET6):
        serve_packets(loop, family, 53, asked)
    return await asyncio.start_server(stream, host=("0.0.0.0", "::"), port=53)
