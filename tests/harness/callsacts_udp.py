"""The acts of callsacts.py with datagrams, and what both files have in common."""

import asyncio
import errno
import os
import select
import signal
import socket
import struct
import time

TIMEOUT = 20


def name_of(error):
    return errno.errorcode.get(error, str(error))


def resolved(host, port, kind=socket.SOCK_STREAM, family=socket.AF_INET):
    return socket.getaddrinfo(host, int(port), family, kind)[0][4]


def interrupted(call):
    """What a call of libc that waits says to a signal with a handler that does not restart."""
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    ctypes = __import__("ctypes")
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0)
    r = call(libc)
    return name_of(ctypes.get_errno()) if r < 0 else "ok"


def handled_signal_udp():
    ctypes = __import__("ctypes")
    s = socket.socket(type=socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0))
    room, name, size = ctypes.create_string_buffer(99), ctypes.create_string_buffer(16), ctypes.c_int(16)
    return interrupted(lambda libc: libc.recvfrom(s.fileno(), room, 99, 0, name, ctypes.byref(size)))


def udp(kind=socket.AF_INET):
    s = socket.socket(kind, socket.SOCK_DGRAM)
    s.settimeout(TIMEOUT)
    return s


def udp_echo(host, port):
    """sendto and recvfrom: the answer comes from who was asked."""
    with udp() as s:
        to = resolved(host, port, socket.SOCK_DGRAM)
        s.sendto(b"hi", to)
        data, who = s.recvfrom(100)
        return f"{data.decode()} {who == to}"


def udp_echo6(host, port):
    with udp(socket.AF_INET6) as s:
        to = resolved(host, port, socket.SOCK_DGRAM, socket.AF_INET6)
        s.sendto(b"hi", to)
        data, who = s.recvfrom(100)
        return f"{data.decode()} {who == to}"


def udp_connected(host, port):
    with udp() as s:
        to = resolved(host, port, socket.SOCK_DGRAM)
        s.connect(to)
        s.send(b"one")
        first = s.recv(100).decode()
        s.settimeout(None)
        os.write(s.fileno(), b"two")
        return f"{first}, {os.read(s.fileno(), 100).decode()}, {s.getpeername() == to} {s.getsockname()[0]}"


def udp_blocking(host, port):
    """recvfrom that waits in the kernel."""
    with udp() as s:
        s.settimeout(None)
        to = resolved(host, port, socket.SOCK_DGRAM)
        s.sendto(b"wait", to)
        return s.recvfrom(100)[0].decode()


def udp_message(host, port):
    with udp() as s:
        to = resolved(host, port, socket.SOCK_DGRAM)
        s.sendmsg([b"by ", b"message"], [], 0, to)
        one, two = bytearray(7), bytearray(20)
        n, _, flags, who = s.recvmsg_into([one, two])
        return f"{(one + two)[:n].decode()} {flags} {who == to}"


def udp_many(host, port, other):
    """Answers of two servers, taken in turns with and without their names."""
    with udp() as s:
        a, b = (resolved(h, port, socket.SOCK_DGRAM) for h in (host, other))
        said = []
        for i in range(12):
            to = (a, b)[i % 2]
            s.sendto(str(i).encode(), to)
            if i % 3:
                data, who = s.recvfrom(100)
                said.append(data == b"echo %d" % i and who == to)
            else:
                said.append(s.recv(100) == b"echo %d" % i)
        return str(all(said))


def udp_brief(host, port, count):
    """Sockets that send one datagram and are closed, or shut down, at once: nothing else is sent."""
    to = resolved(host, port, socket.SOCK_DGRAM)
    kept = []
    for i in range(int(count)):
        s = udp()
        s.connect(to)
        s.send(b"brief")
        if i % 8:
            s.close()
        else:
            s.shutdown(socket.SHUT_WR)
            kept.append(s)
    time.sleep(1)
    return str(len(kept))


def udp_denied(host, port):
    with udp() as s:
        try:
            s.sendto(b"no", (host, int(port)))
            return s.recvfrom(10)[0].decode()
        except OSError as e:
            return name_of(e.errno)


def udp_denied_connected(host, port):
    """The error is there for who asks; who only receives is woken."""
    with udp() as s:
        s.connect((host, int(port)))
        s.send(b"no")
        select.select([s], [], [], TIMEOUT)
        return name_of(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def udp_nothing():
    with udp() as s:
        s.setblocking(False)
        try:
            s.recvfrom(10)
            return "ok"
        except OSError as e:
            return name_of(e.errno)


def udp_time():
    with udp() as s:
        s.settimeout(None)
        s.bind(("127.0.0.1", 0))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 200000))
        try:
            s.recvfrom(10)
            return "ok"
        except OSError as e:
            return name_of(e.errno)


def udp_server(port):
    with udp() as s, udp() as c:
        s.bind(("127.0.0.1", int(port)))
        c.sendto(b"question", ("127.0.0.1", int(port)))
        data, who = s.recvfrom(100)
        s.sendto(data.upper(), who)
        answer, back = c.recvfrom(100)
        return f"{answer.decode()} {back[1]} {s.getsockname()}"


def udp_kind():
    with udp() as s:
        return f"{s.getsockopt(1, 3)} {s.getsockopt(1, 39)} {s.getsockopt(1, 38)}"


def udp_asyncio(host, port):
    class Client(asyncio.DatagramProtocol):
        def __init__(self, said):
            self.said = said

        def connection_made(self, transport):
            transport.sendto(b"aio")

        def datagram_received(self, data, addr):
            self.said.set_result(data.decode())

        def error_received(self, exc):
            self.said.set_result(name_of(exc.errno))

    async def main():
        loop = asyncio.get_running_loop()
        said = loop.create_future()
        await loop.create_datagram_endpoint(lambda: Client(said), remote_addr=resolved(host, port))
        return await asyncio.wait_for(said, TIMEOUT)

    return asyncio.run(main())
