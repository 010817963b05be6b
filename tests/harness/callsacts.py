#!/usr/bin/python3
"""What programs do with sockets, as acts: `callsacts.py "ACT ARG..."...` prints a line for each.

Run in a box and without one; a line is a result, or the name of an errno.
"""

import array
import asyncio
import errno
import fcntl
import multiprocessing
import os
import select
import signal
import socket
import stat
import struct
import sys
import threading
import time

from callsacts_udp import *     # noqa: F403, E402: main() looks acts up by name
from callsacts_udp import TIMEOUT, interrupted, name_of, resolved  # noqa: E402

MSG_FASTOPEN = 0x20000000


def tcp(family=socket.AF_INET):
    s = socket.socket(family)
    s.settimeout(TIMEOUT)
    return s


def echoed(s, data=b"ping"):
    s.sendall(data)
    got = b""
    while len(got) < len(data):
        part = s.recv(65536)
        if not part:
            return "closed"
        got += part
    return "ok" if got == data else f"other bytes: {got[:20]!r}"


# --- connect -----------------------------------------------------------------------

def connect(host, port):
    with tcp() as s:
        s.connect(resolved(host, port))
    return "ok"


def without_waiting(host, port):
    """connect(2) of a socket that does not block, and how poll(2) and SO_ERROR tell of its end."""
    with socket.socket() as s:
        s.setblocking(False)
        to = resolved(host, port)
        first = name_of(s.connect_ex(to)) if s.fileno() >= 0 else ""
        poll = select.poll()
        poll.register(s, select.POLLOUT)
        seen = poll.poll(TIMEOUT * 1000)
        if not seen:
            return f"{first} never"
        how = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        again = name_of(s.connect_ex(to)) if not how else ""
        return " ".join((first, name_of(how) if how else "ok", again)).strip()


def in_time(host, port, seconds):
    """A client's own time-out holds where nobody answers."""
    begun = time.monotonic()
    s = socket.socket()
    s.settimeout(float(seconds))
    try:
        s.connect(resolved(host, port))
        return "ok"
    except TimeoutError:
        return "in time" if time.monotonic() - begun < float(seconds) + 5 else "late"


def send_time(host, port, seconds):
    """The same by SO_SNDTIMEO of a socket that blocks."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, int(float(seconds) * 1e6)))
    begun = time.monotonic()
    try:
        s.connect(resolved(host, port))
        return "ok"
    except OSError as e:
        return name_of(e.errno) + (" in time" if time.monotonic() - begun < float(seconds) + 5 else " late")


def others_go_on(dead, host, port):
    """While one thread waits for a dead host, another connects."""
    late = threading.Thread(target=in_time, args=(dead, 80, 4))
    late.start()
    said = []
    for _ in range(5):
        with tcp() as s:
            s.connect(resolved(host, port))
            said.append(echoed(s))
    late.join()
    return " ".join(sorted(set(said)))


def names(host, port):
    """getpeername(2) is who was asked; getsockname(2) is no address of the host's."""
    with tcp() as s:
        to = resolved(host, port)
        s.connect(to)
        own = s.getsockname()
        return f"{s.getpeername() == to} {own[0]} {own[1] > 1023}"


def disconnect(host, port):
    """AF_UNSPEC: the socket begins anew."""
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    with tcp() as s:
        s.settimeout(None)
        s.connect(resolved(host, port))
        if libc.connect(s.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16) != 0:
            return "not disconnected"
        try:
            s.getpeername()
            return "still connected"
        except OSError as e:
            if e.errno != errno.ENOTCONN:
                return name_of(e.errno)
        s.connect(resolved(host, port))
        return echoed(s)


def after_failure(host, good, bad):
    """A socket whose connect failed can connect elsewhere."""
    with tcp() as s:
        said = name_of(s.connect_ex(resolved(host, bad)))
        s.connect(resolved(host, good))
        return f"{said} {echoed(s)}"


def dead_signal(host):
    """A fatal signal ends a connect that waits."""
    pid = os.fork()
    if pid == 0:
        s = socket.socket()
        s.settimeout(None)
        s.connect(resolved(host, 80))
        os._exit(0)
    time.sleep(0.3)
    os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def disconnect_under_way(host, port):
    """AF_UNSPEC from another thread ends a connect that waits."""
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    s = socket.socket()
    said = []

    def wait():
        try:
            s.connect(resolved(host, port))
            said.append("connected")
        except OSError as e:
            said.append(name_of(e.errno))

    t = threading.Thread(target=wait, daemon=True)
    t.start()
    time.sleep(0.5)
    libc.connect(s.fileno(), struct.pack("H14x", socket.AF_UNSPEC), 16)
    t.join(TIMEOUT)
    return "waits" if t.is_alive() else "ok"


def handled_signal(host, port):
    s = socket.socket()
    to = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", int(port), socket.inet_aton(host))
    return interrupted(lambda libc: libc.connect(s.fileno(), to, len(to)))


def unblocking(silent, host, port):
    """A thread switches O_NONBLOCK while connect(2) looks at it: others are served all the same."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 3)     # its end

        def try_one():
            s = socket.socket()
            threading.Thread(target=switch, args=(s.fileno(),), daemon=True).start()
            s.connect_ex((silent, 80))
            time.sleep(TIMEOUT)

        def switch(fd):
            while True:
                os.set_blocking(fd, True)
                os.set_blocking(fd, False)

        for _ in range(20):
            threading.Thread(target=try_one, daemon=True).start()
            time.sleep(0.1)
        signal.pause()
        os._exit(1)
    os.waitpid(pid, 0)
    with tcp() as c:
        c.connect(resolved(host, port))
        return echoed(c)


# --- descriptors ----------------------------------------------------------------------

def dup(host, port):
    """One socket by many numbers: dup, dup2, fork."""
    s = tcp()
    high = os.dup2(s.fileno(), 200)
    copy = socket.socket(fileno=os.dup(s.fileno()))
    copy.settimeout(TIMEOUT)
    s.close()
    os.close(high)
    copy.connect(resolved(host, port))
    pid = os.fork()
    if pid == 0:
        os._exit(0 if echoed(copy) == "ok" else 1)
    _, status = os.waitpid(pid, 0)
    return f"{status} {echoed(copy)}"


def passed(host, port):
    """A socket that goes to another process by SCM_RIGHTS, which connects it."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
        s = socket.socket(fileno=fds[0])
        s.settimeout(TIMEOUT)
        s.connect(resolved(host, port))
        os._exit(0 if echoed(s) == "ok" else 1)
    s = tcp()
    socket.send_fds(ours, [b"x"], [s.fileno()])
    _, status = os.waitpid(pid, 0)
    return f"{status} {echoed(s)}"


def closed(host, port):
    """close(2) of the last copy ends the connection: nobody else has one."""
    s = tcp()
    s.connect(resolved(host, port))
    s.sendall(b"12345")
    s.shutdown(socket.SHUT_WR)
    got = b""
    while part := s.recv(100):
        got += part
    return got.decode().strip()


# --- what must not work ---------------------------------------------------------------------

def fastopen(host, port):
    with tcp() as s:
        try:
            s.sendto(b"hello", MSG_FASTOPEN, (host, int(port)))
            return "ok"
        except OSError as e:
            return name_of(e.errno)


def fastopen_by_message(host, port):
    with tcp() as s:
        try:
            s.sendmsg([b"hello"], [], MSG_FASTOPEN, (host, int(port)))
            return "ok"
        except OSError as e:
            return name_of(e.errno)


def sendmsg_address(host, port):
    """An address in sendmsg(2) of a stream connects nothing."""
    with tcp() as s:
        try:
            s.sendmsg([b"hello"], [], socket.MSG_NOSIGNAL, (host, int(port)))
            return "ok"
        except OSError as e:
            return name_of(e.errno)


def option(level, name, text):
    with tcp() as s:
        try:
            s.setsockopt(int(level), int(name), bytes.fromhex(text))
            return "ok"
        except OSError as e:
            return name_of(e.errno)


def interfaces():
    """SIOCGIFCONF: the addresses of the host."""
    room = array.array("B", bytes(4096))
    with tcp() as s:
        try:
            fcntl.ioctl(s, 0x8912, struct.pack("iP", 4096, room.buffer_info()[0]))
            return "ok"
        except OSError as e:
            return name_of(e.errno)


def family(number, kind, protocol=0):
    try:
        socket.socket(int(number), int(kind), int(protocol)).close()
        return "ok"
    except OSError as e:
        return name_of(e.errno)


def pair(kind):
    try:
        a, b = socket.socketpair(socket.AF_UNIX, int(kind))
    except OSError as e:
        return name_of(e.errno)
    a.sendmsg([b"by message"])
    return b.recvmsg(100)[0].decode()


def udp_flip(rounds, good, bad, port, where):
    """sendto(2) to the one while another thread writes the other's address over it."""
    return flip(rounds, good, bad, port, "udp", where)


def flip(rounds, good, bad, port, kind="tcp", call="connect"):
    """connect(2) to the one while another thread writes the other's address over it: how often
    each call said yes. Who was reached, the servers know."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    at = ctypes.create_string_buffer(16)
    yes = struct.pack("!2xH4s8x", int(port), socket.inet_aton(good))
    no = struct.pack("!2xH4s8x", int(port), socket.inet_aton(bad))
    yes, no = struct.pack("H", socket.AF_INET) + yes[2:], struct.pack("H", socket.AF_INET) + no[2:]
    ctypes.memmove(at, yes, 16)
    stop = threading.Event()

    def exchange():
        while not stop.is_set():
            ctypes.memmove(at, no, 16)
            ctypes.memmove(at, yes, 16)

    thread = threading.Thread(target=exchange)
    thread.start()
    sys.setswitchinterval(1e-6)
    said = 0
    try:
        for _ in range(int(rounds)):
            with socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM) as s:
                if kind == "udp":
                    said += libc.sendto(s.fileno(), b"flip", 4, 0, at, 16) == 4
                else:
                    said += libc.connect(s.fileno(), at, 16) == 0
    finally:
        stop.set()
        thread.join()
    return "some" if said else "none"


def sockets(seconds):
    """One after the other: how many were made, and what the first was that is none."""
    until, made = time.monotonic() + float(seconds), 0
    while time.monotonic() < until:
        s = socket.socket(type=socket.SOCK_DGRAM)
        if not stat.S_ISSOCK(os.fstat(s.fileno()).st_mode):
            return f"descriptor {s.detach()} after {made} sockets"
        s.close()
        made += 1
    return "sockets" if made else "none"


# --- servers in the box --------------------------------------------------------------------------

def serve(address, kind=socket.AF_INET):
    s = socket.socket(kind)
    s.settimeout(TIMEOUT)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(address)
    s.listen(8)
    return s


def talk(server, to, kind=socket.AF_INET):
    client = tcp(kind)
    client.connect(to)
    there, peer = server.accept()
    client.sendall(b"hello")
    got = there.recv(10).decode()
    same = (there.getsockname()[1] == client.getpeername()[1] == server.getsockname()[1],
            there.getpeername()[1] == client.getsockname()[1] == peer[1])
    for s in (client, there):
        s.close()
    return f"{got} {same[0]} {same[1]}"


def server(port):
    with serve(("127.0.0.1", int(port))) as s:
        return f"{talk(s, ('127.0.0.1', int(port)))} {s.getsockname()}"


def server_on_all(port):
    with serve(("0.0.0.0", int(port))) as s:
        return f"{talk(s, ('127.0.0.1', int(port)))} {talk(s, ('127.8.9.1', int(port)))} {s.getsockname()}"


def server_any_port():
    with serve(("127.0.0.1", 0)) as s:
        return talk(s, s.getsockname())


def server_unbound():
    with socket.socket() as s:
        s.settimeout(TIMEOUT)
        s.listen(1)
        return talk(s, ("127.0.0.1", s.getsockname()[1]))


def server_both_families(port):
    with serve(("::", int(port)), socket.AF_INET6) as s:
        return f"{talk(s, ('127.0.0.1', int(port)))} {talk(s, ('::1', int(port)), socket.AF_INET6)}"


def server_of_ipv6_alone(port):
    s = socket.socket(socket.AF_INET6)
    s.settimeout(TIMEOUT)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind(("::1", int(port)))
    s.listen(1)
    with s, tcp() as c:
        return f"{talk(s, ('::1', int(port)), socket.AF_INET6)} {name_of(c.connect_ex(('127.0.0.1', int(port))))}"


def twice(port):
    """A port is used once, and again when its server is gone."""
    with serve(("127.0.0.1", int(port))):
        try:
            serve(("127.0.0.1", int(port))).close()
            first = "ok"
        except OSError as e:
            first = name_of(e.errno)
    with tcp() as c:
        none = name_of(c.connect_ex(("127.0.0.1", int(port))))
    with serve(("127.0.0.1", int(port))) as s:
        return f"{first} {none} {talk(s, ('127.0.0.1', int(port)))}"


def bind(address, port, kind="stream"):
    with socket.socket(type=socket.SOCK_STREAM if kind == "stream" else socket.SOCK_DGRAM) as s:
        try:
            s.bind((address, int(port)))
            return "ok"
        except OSError as e:
            return name_of(e.errno)


def asyncio_server(port):
    async def handle(r, w):
        w.write((await r.readline()).upper())
        w.close()

    async def main():
        s = await asyncio.start_server(handle, "127.0.0.1", int(port))
        async with s:
            said = []
            for _ in range(20):
                r, w = await asyncio.open_connection("127.0.0.1", int(port))
                w.write(b"hello\n")
                said.append(await r.readline())
                w.close()
            return f"{len(said)} {said[0].decode().strip()}"

    return asyncio.run(main())


def processes():
    """multiprocessing: a pool, a queue, and a manager by TCP."""
    from multiprocessing.managers import BaseManager

    class Manager(BaseManager):
        pass

    Manager.register("twice", callable=lambda x: x * 2)
    with multiprocessing.Pool(2) as pool:
        squares = pool.map(abs, (-1, -2, -3))
    m = Manager(("127.0.0.1", 0), b"key")
    m.start()
    c = Manager(m.address, b"key")
    c.connect()
    return f"{squares} {c.twice(21)}"


def waits(seconds):
    """A process that does nothing, for what happens meanwhile."""
    time.sleep(float(seconds))
    return "done"


def crowd(host, port, count):
    """Connections at once, each with its own data."""
    async def one(i):
        r, w = await asyncio.open_connection(host, int(port))
        w.write(b"%d\n" % i)
        line = await r.readline()
        w.close()
        return int(line) == i

    async def main():
        return sum(await asyncio.gather(*(one(i) for i in range(int(count)))))

    return str(asyncio.run(main()))


def main():
    for act in sys.argv[1:]:
        what, *args = act.split()
        try:
            said = globals()[what](*args)
        except OSError as e:
            said = name_of(e.errno) if e.errno else type(e).__name__
        print(said, flush=True)


if __name__ == "__main__":
    main()
