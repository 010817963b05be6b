"""The servers of the test internet: one process, one event loop, an exact log.

Runs as `netservers.py FOLDER` in a network namespace of its own, started by testnet.py.
FOLDER has the certificates and `www`, the files that HTTP serves; `control` is the socket
on which a suite asks for the log. Every connection and every question is in the log before
it is answered.
"""

import asyncio
import base64
import functools
import ipaddress
import json
import os
import resource
import socket
import ssl
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from netzones import Zones, serve_dns, serve_packets  # noqa: E402

HTTP_PORTS, TLS_PORTS = (80, 8080), (443, 8443)
ECHO, UDP_ECHO, BANNER, COUNTER, SINK = 7, 7777, 22, 11371, 9
HTTP_PROXY, SOCKS_PROXY = 3128, 1080
BLOCK = bytes(1 << 20)
USER, PASSWORD = "fred", "s3cret-of-the-proxy"


class Servers:
    def __init__(self, folder):
        self.folder = folder
        self.log = []
        self.open = 0           # echo connections now
        self.zones = Zones(self.note)

    def note(self, event):
        self.log.append(event)
        return event

    def came(self, kind, writer, **more):
        where = writer.get_extra_info("sockname")
        return self.note({"kind": kind, "to": where[0].removeprefix("::ffff:"), "port": where[1], **more})

    # --- control ------------------------------------------------------------

    async def control(self, reader, writer):
        """One command a line, one JSON value a line."""
        while line := (await reader.readline()).decode().strip():
            if line == "clear":
                self.log, self.zones.asked = [], {}
            answer = {"clear": True, "log": self.log, "open": self.open}.get(line)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    # --- HTTP ---------------------------------------------------------------

    async def http(self, reader, writer):
        tls = writer.get_extra_info("ssl_object")
        kind = "tls" if tls else "http"
        event = self.came(kind, writer, sni=getattr(tls, "asked_for", None), requests=[])
        try:
            while await self.request(reader, writer, event):
                pass
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ssl.SSLError):
            pass
        writer.close()

    async def request(self, reader, writer, event):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        method, target, _ = lines[0].split(" ", 2)
        fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
        event["requests"].append({"host": fields.get("host"), "target": target, "method": method})
        length = int(fields.get("content-length", "0"))
        if fields.get("expect"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        took = 0
        while took < length:
            data = await reader.read(min(length - took, 1 << 18))
            if not data:
                return False
            took += len(data)
            event["body"] = took
        if fields.get("upgrade") == "echo":
            return await self.upgraded(reader, writer)
        await self.respond(writer, urllib.parse.urlsplit(target).path, fields, event, took, method)
        return fields.get("connection", "").lower() != "close"

    async def upgraded(self, reader, writer):
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        return False

    async def respond(self, writer, path, fields, event, took, method):
        if path.startswith("/zeros/"):
            await self.zeros(writer, int(path.split("/")[2]))
            return
        body, status, kind, more = b"", "200 OK", "text/html", ""
        if path.startswith("/guarded/"):    # the same files, behind a login
            path = path.removeprefix("/guarded")
            if fields.get("authorization") != "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode():
                path, status, more = "/files/none", "401 Unauthorized", 'WWW-Authenticate: Basic realm="x"\r\n'
        name = os.path.normpath(os.path.join(self.folder, "www", path.lstrip("/")))
        if path.startswith("/files/"):
            if os.path.isdir(name):
                name = os.path.join(name, "index.html")
            try:
                with open(name, "rb") as f:
                    body = f.read()
            except OSError:
                status = status if more else "404 Not Found"
        else:
            kind = "application/json"
            body = json.dumps({"served": event["kind"], "host": fields.get("host"), "sni": event["sni"],
                               "to": event["to"], "path": path, "body": took}).encode() + b"\n"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
                     .encode() + (b"" if method == "HEAD" else body))
        await writer.drain()

    async def zeros(self, writer, size):
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        while size:
            part = min(size, len(BLOCK))
            writer.write(memoryview(BLOCK)[:part])
            await writer.drain()
            size -= part

    # --- plain TCP and UDP ----------------------------------------------------

    async def echo(self, reader, writer):
        self.came("echo", writer)
        self.open += 1
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        self.open -= 1
        writer.close()

    async def banner(self, reader, writer):
        """Speaks first, as ssh and smtp do."""
        self.came("banner", writer)
        writer.write(b"SSH-2.0-test\r\n")
        writer.write(b"you said " + await reader.readline())
        writer.close()

    async def counter(self, reader, writer):
        """Answers only after the client has closed its half, as HKP does."""
        event = self.came("counter", writer)
        count = 0
        while data := await reader.read(65536):
            count += len(data)
        event["bytes"] = count
        writer.write(f"got {count}\n".encode())
        await writer.drain()
        writer.close()

    async def sink(self, reader, writer):
        event = self.came("sink", writer, bytes=0)
        try:
            while data := await reader.read(1 << 18):
                event["bytes"] += len(data)
        except ConnectionError:
            pass
        writer.close()

    def datagram(self, data, where, _peer, reply):
        self.note({"kind": "udp", "to": where.removeprefix("::ffff:"), "data": data[:64].decode("latin-1")})
        reply(b"echo " + data)

    # --- proxies of the host --------------------------------------------------

    async def connect_to(self, host, port):
        """As a proxy does: it resolves by itself."""
        try:
            ipaddress.ip_address(host)
        except ValueError:
            host = (self.zones.addresses(host) or ["198.51.100.98"])[0]
        return await asyncio.open_connection(host, port)

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (ConnectionError, OSError):
            writer.close()

    async def tunnel(self, reader, writer, host, port):
        try:
            out_reader, out_writer = await self.connect_to(host, port)
        except OSError:
            return None
        return asyncio.gather(self.pump(reader, out_writer), self.pump(out_reader, writer))

    async def http_proxy(self, reader, writer):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = lines[0].split(" ")
        want = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        known = any(line.lower().startswith("proxy-authorization:") and line.endswith(want) for line in lines)
        self.note({"kind": "proxy", "how": "connect", "target": target, "known": known})
        if method != "CONNECT" or not known:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = target.rpartition(":")
        both = await self.tunnel(reader, writer, host.strip("[]"), int(port))
        if both is None:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await both
        writer.close()

    async def socks_proxy(self, reader, writer):
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if 2 not in methods:
            self.note({"kind": "proxy", "how": "socks", "target": None, "known": False})
            writer.write(b"\x05\xff")
            writer.close()
            return
        writer.write(b"\x05\x02")
        user = await reader.readexactly((await reader.readexactly(2))[1])
        password = await reader.readexactly((await reader.readexactly(1))[0])
        known = (user, password) == (USER.encode(), PASSWORD.encode())
        writer.write(b"\x01\x00" if known else b"\x01\x01")
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            host = str(ipaddress.ip_address(await reader.readexactly(4 if kind == 1 else 16)))
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.note({"kind": "proxy", "how": "socks", "target": f"{host}:{port}", "known": known})
        both = await self.tunnel(reader, writer, host, port) if known else None
        writer.write(b"\x05" + (b"\x00" if both else b"\x05") + b"\x00\x01" + bytes(6))
        if both:
            await both
        writer.close()

    # --- all of it --------------------------------------------------------------

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(self.folder, "server.pem"), os.path.join(self.folder, "server.key"))

        def asked(tls, name, _context):
            tls.asked_for = name

        context.sni_callback = asked
        return context

    async def listen(self, port, handler, context=None):
        await asyncio.start_server(functools.partial(quiet, handler), host=("0.0.0.0", "::"), port=port,
                                   ssl=context, backlog=2048, limit=1 << 20)

    async def run(self):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        loop = asyncio.get_running_loop()
        await serve_dns(self.zones)
        for family in (socket.AF_INET, socket.AF_INET6):
            serve_packets(loop, family, UDP_ECHO, self.datagram)
        for port in HTTP_PORTS:
            await self.listen(port, self.http)
        for port in TLS_PORTS:
            await self.listen(port, self.http, self.context())
        for port, handler in ((ECHO, self.echo), (BANNER, self.banner), (COUNTER, self.counter),
                              (SINK, self.sink), (HTTP_PROXY, self.http_proxy),
                              (SOCKS_PROXY, self.socks_proxy)):
            await self.listen(port, handler)
        control = os.path.join(self.folder, "control")
        await asyncio.start_unix_server(self.control, path=control, limit=1 << 20)
        os.chmod(control, 0o666)
        print("ready", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)     # until testnet.py is gone


async def quiet(handler, reader, writer):
    """A client that leaves in the middle is no news."""
    try:
        await handler(reader, writer)
    except (OSError, asyncio.IncompleteReadError, ssl.SSLError, ValueError):
        writer.close()


if __name__ == "__main__":
    asyncio.run(Servers(sys.argv[1]).run())
