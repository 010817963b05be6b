# as: root user rootwalls
# in: testnet
"""Attacks by name: one name is looked up or connected to, another is meant (A14-A17, E29-E36).

Every attack works without a box: the server that must not be reached answers.
"""

import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import REPO, box, nsbox, run  # noqa: E402
from egress import CLIENT, NOT_FOUND, REFUSED, allow, both, denials, has_denial, inside, outside  # noqa: E402
from host import become_reaper  # noqa: E402
from tap import run_tests  # noqa: E402
from testnet import Internet  # noqa: E402

NET = Internet()
TRICKS = os.path.join(REPO, "tests/harness/tricks.py")
PYTHON = "/usr/bin/python3"
GOOD = "api.good.test"


def trick(flags, *cases):
    """The answers without a box and in one, and its Ran."""
    texts = [json.dumps(case) for case in cases]
    bare = run([PYTHON, TRICKS, *texts])
    ran = box(["--ro", f"{TRICKS}:/tricks.py", *flags], PYTHON, "/tricks.py", *texts)
    return ([json.loads(line) for line in bare.text().split("\n")],
            [json.loads(line) for line in ran["stdout"].splitlines()], ran)


def said(answer):
    """What the server saw: its name in TLS and in HTTP; or what came instead."""
    return (answer["sni"], answer["host"]) if isinstance(answer, dict) else answer


def tls(to=GOOD, sni=GOOD, host=GOOD, port=443, **more):
    return {"to": [to, port], "sni": sni, "host": host, **more}


def http(to=GOOD, host=GOOD, port=80, **more):
    return {"to": [to, port], "host": host, **more}


def refused(tap, flags, cases, title):
    """Each of (what, case): answered without a box, closed in it, and recorded."""
    bare, got, ran = trick(flags, *(case for _, case in cases))
    for i, (what, case) in enumerate(cases):
        tap.ok(bare[i] not in ("closed", "lookup", "timeout"), f"{title} {what}: answered without a box", bare[i])
        tap.equal(got[i] if i < len(got) else None, case.get("want", "closed"), f"{title} {what}", ran)
    return ran


def the_name_in_tls_must_be_the_one_looked_up(tap):
    _, got, ran = trick(allow(GOOD), tls(), tls(record=40), tls(record=1), tls(segment=1), tls(alpn=20))
    bare, _, _ = trick(["--net", "disabled"], tls(record=1))
    for answer, what in zip(got, ("plainly", "in records of 40 bytes", "in records of one byte",
                                  "in writes of one byte", "with 4 KB of extensions")):
        want = (GOOD, GOOD) if what != "in records of one byte" else said(bare[0])
        tap.equal(said(answer), want, f"E33 an honest ClientHello passes {what}", ran)
    tap.equal(denials(ran), [], "E33 and none of it is denied", ran)
    NET.clear()
    ran = refused(tap, allow(GOOD), [
        ("the SNI of a site at the same address", tls(sni="fronted.test")),
        ("a foreign SNI", tls(sni="evil.test")),
        ("a foreign SNI in records of 40 bytes", tls(sni="evil.test", record=40)),
        ("a foreign SNI in writes of one byte", tls(sni="evil.test", segment=1)),
        ("a foreign SNI behind 4 KB of extensions", tls(sni="evil.test", alpn=20)),
        ("no SNI at all", tls(sni=None)),
        ("a subdomain as SNI", tls(sni=f"x.{GOOD}")),
    ], "A17 E33")
    has_denial(tap, ran, f"connect {GOOD}:443: the ClientHello asks for fronted.test", "re:.*looked up.*",
               "--allow-out fronted.test", "A17 the record has both names, and the flag")
    ran = box(["--ro", f"{TRICKS}:/tricks.py", *allow(GOOD)], PYTHON, "/tricks.py", json.dumps(tls(sni="evil.test")))
    tap.equal(sum(e["sni"] == "evil.test" and bool(e["requests"]) for e in NET.events("tls")), 4,
              "A17 only the four without a box have reached the server", (NET.events("tls"), ran))


def other_protocols_on_443(tap):
    bare, got, ran = trick(allow(GOOD), {"to": [GOOD, 443], "raw": "SSH-2.0-client\r\n"})
    tap.equal((bare, got), (["closed"], ["closed"]), "E33 what is not TLS on port 443 is closed", ran)
    tap.ok(any("not TLS" in what for what, _, _ in denials(ran)), "E33 and recorded as such", ran)
    ran = refused(tap, allow(f"{GOOD}:8443", f"{GOOD}:8080"), [
        ("a foreign SNI on another port", tls(port=8443, sni="evil.test")),
        ("a foreign Host on another port", http(port=8080, host="evil.test"))], "A17 E33")
    _, got, ran = trick(allow(f"{GOOD}:8443", f"{GOOD}:8080"), tls(port=8443), http(port=8080, host=f"{GOOD}:8080"))
    tap.equal([said(a) for a in got], [(GOOD, GOOD), (None, f"{GOOD}:8080")], "E33 the right names pass there", ran)


def the_host_must_be_the_one_looked_up(tap):
    _, got, ran = trick(allow(GOOD), http(), http(again=GOOD), http(host=GOOD.upper()), http(host=f"{GOOD}:80"),
                        http(segment=1))
    tap.equal([said(a) for a in got if not isinstance(a, list)],
              [(None, GOOD), (None, GOOD.upper()), (None, f"{GOOD}:80"), (None, GOOD)],
              "E10 honest requests pass: in upper case, with the port, byte by byte", ran)
    tap.equal([said(a) for a in got[1]], [(None, GOOD)] * 2, "E10 and two on one connection", ran)
    ran = refused(tap, allow(GOOD), [
        ("a foreign Host", http(host="evil.test")),
        ("the Host of a site at the same address", http(host="fronted.test")),
        ("a foreign Host byte by byte", http(host="evil.test", segment=1)),
        ("a foreign absolute target", http(target="http://evil.test/")),
        ("a Host with userinfo", http(host=f"{GOOD}@evil.test")),
        ("a Host with two dots", http(host=f"{GOOD}..")),
    ], "A17 E33 E34")
    tap.ok(any("evil.test" in what or "Host" in what for what, _, _ in denials(ran)), "E33 the record says so", ran)
    NET.clear()
    bare, got, ran = trick(allow(GOOD), http(again="evil.test"))
    tap.equal([said(a) for a in bare[0]], [(None, GOOD), (None, "evil.test")],
              "E33 a changed Host on a kept connection is answered without a box")
    tap.equal(([said(a) for a in got[0]] if isinstance(got[0], list) else got[0]), [(None, GOOD), "closed"],
              "E33 in a box the connection ends there", ran)
    tap.equal([r["host"] for e in NET.events("http")[1:] for r in e["requests"]], [GOOD],
              "E33 and the second request does not arrive")
    line = "GET / HTTP/1.1\r\nHost: {}\r\n"
    smuggled = line.format("evil.test") + "\r\n"
    ran = refused(tap, allow(GOOD), [
        ("two Host fields", {"to": [GOOD, 80], "raw": line.format(GOOD) + "Host: evil.test\r\n\r\n"}),
        ("a second request in the body of a first with two lengths",
         {"to": [GOOD, 80], "raw": f"POST / HTTP/1.1\r\nHost: {GOOD}\r\nContent-Length: 0\r\n"
          f"Content-Length: {len(smuggled)}\r\n\r\n{smuggled}"}),
        ("CONNECT to another site", {"to": [GOOD, 80], "raw": "CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test\r\n\r\n"}),
    ], "E33 E34")


def rebinding(tap):
    for name, address, what in (("rebind.good.test", "127.0.0.1", "loopback 127.0.0.0/8"),
                                ("rebind10.good.test", "10.1.2.3", "private 10.0.0.0/8")):
        NET.clear()
        script = ("import socket, sys, time, errno\n"
                  "def go():\n"
                  "    try: socket.create_connection((sys.argv[1], 80), 20).close(); return 'ok'\n"
                  "    except OSError as e: return errno.errorcode.get(e.errno, str(e))\n"
                  "print(go(), flush=True)\n"
                  "end = time.monotonic() + 30\n"
                  "while time.monotonic() < end:\n"
                  "    time.sleep(1.2); said = go()\n"       # the answer lives one second
                  "    if said != 'ok': break\n"
                  "print(said)\n")
        ran = box(allow(name), PYTHON, "-c", script, name)
        tap.equal(ran["stdout"].split(), ["ok", "ECONNREFUSED"],
                  f"A16 E30 {name}: public first, then {address}: refused then", ran)
        tap.ok(NET.lookups(name) >= 2, f"A16 E30 {name} was resolved again")
        has_denial(tap, ran, f"connect {name}:80 ({address})", f"always denied: {what}", f"--allow-private {address}",
                   f"A16 E30 {name}: the record has the address")


def names_of_private_addresses(tap):
    names = ("private", "loopback", "metadata", "metadata6", "ula", "mapped", "nat64")
    flags = allow("*.good.test", "alias.private.test", "other.test")
    ran = both(tap, flags, [
        *((f"connect {n}.good.test 80", "ok" if n not in ("loopback", "mapped") else REFUSED, REFUSED) for n in names
          if n != "mapped"),
        ("connect alias.private.test 80", "ok", REFUSED),
        ("connect mixed.good.test 80", "ok", "ok"),
        ("connect privatehosts.good.test 80", "ok", REFUSED),
    ], "A15 A16 E30 E31", client=CLIENT)
    has_denial(tap, ran, "connect nat64.good.test:80 (64:ff9b::a01:203)", "re:always denied: .*", "re:--allow-private .*",
               "E31 an IPv4 address in an IPv6 one is seen")
    got, ran = inside(flags, "connect mapped.good.test 80", client=CLIENT)
    tap.equal(got, [REFUSED], "E31 a v4-mapped private address behind a name", ran)


def spellings_of_names(tap):
    """One canonical form: what is written otherwise is the same, and nothing more."""
    flags = allow(GOOD, "*.wild.test")
    got, ran = inside(flags, f"connect {GOOD}. 80", "connect API.Good.TEST 80", "lookup xapi.good.test",
                      "lookup good.test", f"lookup x.{GOOD}", "lookup wild.test", f"lookup {GOOD}.evil.test")
    tap.equal(got[:2], ["ok", "ok"], "E1 E34 upper case and a final dot are the allowed name", ran)
    for i, what in enumerate(("a longer label", "the parent", "a subdomain", "the apex of a wildcard",
                              "the name in front of another")):
        tap.equal(got[2 + i], NOT_FOUND, f"E1 E2 E8 {what} is not", ran)
    got, ran = inside(allow("*.many.test"), "connect a.many.test 80", "connect a.b.c.many.test 80", "lookup many.test")
    tap.equal(got[:2], ["ok", "ok"], "E1 a wildcard has one label or many", ran)
    tap.equal(got[2], NOT_FOUND, "E1 and not its apex", ran)
    for bad in ("", "*.test", "api*.com", "a..b", "user@good.test", "http://good.test", "0x7f.1"):
        ran = nsbox("run", *allow(bad), "--", "true")
        tap.ok(ran.rc == 125 and ran.err.startswith(b"nsbox: ") and ran.err.count(b"\n") == 1,
               f"E3 E5 E34 --allow-out {bad!r} is refused in one line", ran)
    for flags in (["--net", "filtered"], [*allow(GOOD), "--set", "net.allow_out="]):
        got, ran = inside(flags, f"lookup {GOOD}", "connect 203.0.113.66 80")
        tap.equal(got, [NOT_FOUND, REFUSED], f"E5 {' '.join(flags)!r} lets nothing out", ran)


def a_spoofed_hosts_entry(tap):
    curl = ["/usr/bin/curl", "-sS", "-m", "20", "--resolve", f"{GOOD}:80:203.0.113.66", f"http://{GOOD}/"]
    bare = run(curl)
    tap.ok(b'"to": "203.0.113.66"' in bare.out, "E12 a spoofed address of an allowed name is reached without a box", bare)
    ran = box(allow(GOOD), *curl)
    tap.equal(ran["exit_code"], 7, "E12 in a box it is refused: the name does not open it", ran)
    tap.equal(outside("connect 203.0.113.66 80"), ["ok"], "E9 an address answers without a box")
    got, ran = inside(allow(GOOD), "connect 198.51.100.10 443")
    tap.equal(got, [REFUSED], "E9 an address is refused where only its name is allowed", ran)


def a_denial_is_fast(tap):
    script = ("import socket, time, sys\n"
              "t = time.monotonic()\n"
              "try: socket.getaddrinfo('evil.test', 80)\n"
              "except OSError as e: print((time.monotonic() - t) * 1000)\n"
              "t = time.monotonic()\n"
              "try: socket.create_connection(('203.0.113.66', 80), 30)\n"
              "except OSError as e: print((time.monotonic() - t) * 1000)\n")
    start = time.monotonic()
    ran = box(allow(GOOD), PYTHON, "-c", script)
    times = [float(word) for word in ran["stdout"].split()]
    tap.ok(len(times) == 2 and max(times) < 2000, "a refused name and a refused address fail at once", ran)
    tap.note(f"a refused lookup took {times[0]:.1f} ms, a refused connect {times[1]:.1f} ms, "
             f"the box {(time.monotonic() - start) * 1000:.0f} ms")


if __name__ == "__main__":
    become_reaper()
    run_tests([the_name_in_tls_must_be_the_one_looked_up, other_protocols_on_443, the_host_must_be_the_one_looked_up,
               rebinding, names_of_private_addresses, spellings_of_names, a_spoofed_hosts_entry, a_denial_is_fast])
