# as: root user
"""What the command says of the network's rules: policy explain --to, check, show. No box is made
and no packet sent; the verdicts in a box have their own suites."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import SCRATCH, nsbox  # noqa: E402
from tap import run_tests  # noqa: E402

FILTERED = ("--net", "filtered", "--allow-out", "good.test", "--allow-out", "*.sub.test:8443")
BEHIND = "; what it resolves to is judged as well: a private address needs --allow-private"

# Flags, destination, exit status, and the line.
EXPLAINED = [
    ((), "good.test", 122,
     "good.test:443: denied, the box has no network: net.mode=disabled; allow it with --net filtered "
     "--allow-out good.test"),
    (FILTERED, "good.test", 0, "good.test:443: allowed, by net.allow_out=good.test" + BEHIND),
    (FILTERED, "GOOD.test.:80", 0, "good.test:80: allowed, by net.allow_out=good.test" + BEHIND),
    (FILTERED, "good.test:22", 122,
     "good.test:22: denied, no rule has this port and protocol: net.allow_out=good.test (other ports); "
     "allow it with --allow-out good.test:22"),
    (FILTERED, "a.b.sub.test:8443", 0,
     "a.b.sub.test:8443: allowed, by net.allow_out=*.sub.test:8443" + BEHIND),
    (FILTERED, "sub.test:8443", 122,
     "sub.test:8443: denied, net.allow_out (not listed); allow it with --allow-out sub.test:8443"),
    (FILTERED, "evil.test", 122,
     "evil.test:443: denied, net.allow_out (not listed); allow it with --allow-out evil.test"),
    (FILTERED, "192.0.2.1:53/udp", 122,
     "192.0.2.1:53/udp: denied, net.allow_out (not listed); allow it with --allow-out 192.0.2.1:53/udp"),
    (("--net", "open"), "evil.test:22", 0, "evil.test:22: allowed, no rule denies it" + BEHIND),
    (("--net", "open"), "[2001:db8::1]:22", 0, "[2001:db8::1]:22: allowed, no rule denies it"),
    (("--net", "open"), "10.1.2.3", 122,
     "10.1.2.3:443: denied, always denied: private 10.0.0.0/8; allow it with --allow-private 10.1.2.3"),
    (("--net", "open", "--allow-private", "10.0.0.0/8"), "10.1.2.3", 0,
     "10.1.2.3:443: allowed, no rule denies it"),
    (("--net", "open"), "0x7f.1", 122,
     "127.0.0.1:443: denied, always denied: loopback 127.0.0.0/8; allow it with --allow-private "
     "127.0.0.1 (that is what \"0x7f.1\" means: 127.0.0.1)"),
    (("--net", "filtered", "--deny-out", "evil.test"), "evil.test:8080", 122,
     "evil.test:8080: denied, by net.deny_out=evil.test"),
    (("--net", "filtered", "--deny-out", "evil.test"), "good.test", 0,
     "good.test:443: allowed, no rule denies it" + BEHIND),
    (("--net", "filtered", "--allow-out", "a.test", "--deny-out", "ALL_TRAFFIC"), "a.test", 0,
     "a.test:443: allowed, by net.allow_out=a.test" + BEHIND),
    (("--net", "filtered", "--allow-out", "a.test", "--deny-out", "ALL_TRAFFIC", "--set",
      "net.precedence=deny"), "a.test", 122, "a.test:443: denied, by net.deny_out=ALL_TRAFFIC"),
    (("--net", "filtered", "--compat", "e2b", "--allow-out", "192.0.2.1"), "203.0.113.1", 0,
     "203.0.113.1:443: allowed, no rule denies it"),
]

METADATA = ("169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518",
            "[::ffff:169.254.169.254]:443", "[64:ff9b::a9fe:a9fe]:443", "[2002:a9fe:a9fe::1]:443",
            "[fd00:ec2::254]:443")


def each_destination_is_explained(tap):
    for flags, to, rc, line in EXPLAINED:
        ran = nsbox("policy", "explain", "--to", to, *flags)
        tap.equal((ran.rc, ran.out.decode(), ran.err), (rc, line + "\n", b""),
                  f"explain --to {to} {' '.join(flags)}", ran)


def the_metadata_address_is_denied_in_every_spelling(tap):
    for to in METADATA:
        ran = nsbox("policy", "explain", "--to", to, "--net", "open", "--json")
        record = json.loads(ran.out)
        tap.equal((ran.rc, record["allowed"], record["by"]), (122, False, "private"),
                  f"E31 {to} is denied", ran)
    ran = nsbox("policy", "explain", "--to", "169.254.169.254", "--net", "open", "--allow-private",
                "169.254.169.254")
    tap.equal(ran.rc, 0, "E31 control: lifted by hand it is allowed", ran)


def json_says_the_same(tap):
    ran = nsbox("policy", "explain", "--json", "--to", "b.test:8443", *FILTERED)
    tap.equal((ran.rc, json.loads(ran.out)), (122, {
        "schema": "nsbox.reach/1", "host": "b.test", "port": 8443, "protocol": "tcp",
        "allowed": False, "by": "default", "rule": "net.allow_out (not listed)",
        "allow": "--allow-out b.test:8443",
        "text": "b.test:8443: denied, net.allow_out (not listed); allow it with --allow-out b.test:8443",
    }), "a denial as JSON", ran)
    ran = nsbox("policy", "explain", "--json", "--to", "good.test", *FILTERED)
    record = json.loads(ran.out)
    tap.equal((ran.rc, record["allowed"], record["by"], record["rule"], record["allow"]),
              (0, True, "allow_out", "net.allow_out=good.test", None), "an allowance as JSON", ran)


def what_is_wrong_is_one_line_and_125(tap):
    for args, line in (
            (("--to", "http://a.test/"), '"http://a.test/" is not a destination: it is a URL; give the '
                                         'host alone: a.test'),
            (("--to", "10.0.0.0/8"), '"10.0.0.0/8" is not a destination: it is a range or has a path; '
                                     'HOST[:PORT][/udp], as in example.org, 192.0.2.1:53/udp, '
                                     '[2001:db8::1]:443'),
            (("--to", "a.test", "true"), "--to and a command exclude each other; --to asks about a "
                                         "destination, whatever runs"),
            (("--to",), "--to needs a value: HOST[:PORT][/udp]"),
            (("--to", "a.test", "--allow-out", "a.test"),
             "net.allow_out is given, but net.mode is disabled: nothing can be reached; drop it, or ask "
             "for --net filtered"),
            (("--to", "a.test", "--net", "filtered", "--allow-out", "b.test", "--allow-out", "api*.com"),
             'net.allow_out: entry 2, "api*.com": a star is only allowed as its first label; a star is a '
             'whole label, the first one: *.example.com')):
        ran = nsbox("policy", "explain", *args)
        tap.equal((ran.rc, ran.out, ran.err.decode()), (125, b"", f"nsbox: {line}\n"),
                  f"policy explain {' '.join(args)}")


def check_warns_of_rules_without_effect(tap):
    flags = ("--net", "filtered", "--allow-out", "0.0.0.0/0", "--deny-out", "192.0.2.0/24")
    ran = nsbox("policy", "check", *flags)
    tap.equal((ran.rc, ran.text()), (0, "the policy here: ok"), "a swallowed denial is no error", ran)
    tap.equal(ran.err.decode(), 'nsbox: warning: net.deny_out "192.0.2.0/24" has no effect: '
              'net.allow_out "0.0.0.0/0" has all of it, and allow wins (--set net.precedence=deny turns '
              'that round)\n', "but it is told", ran)
    ran = nsbox("policy", "check", *flags, "--set", "net.precedence=deny")
    tap.equal((ran.rc, ran.err), (0, b""), "with the other precedence there is nothing to tell", ran)


def e2bs_rules_are_asked_for_by_a_flag(tap):
    path = os.path.join(SCRATCH, "e2b.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"network_policy": {"type": "filtered", "allow_out": ["a.test"], "deny_out": []}}')
    ran = nsbox("policy", "check", path)
    tap.equal((ran.rc, ran.err), (0, b""), "Bud's object is taken as it is", ran)
    ran = nsbox("policy", "check", "--compat", "e2b", path)
    tap.equal((ran.rc, ran.out, ran.err.decode()),
              (125, b"", 'nsbox: net.compat=e2b: entry 1, "a.test": a name needs 0.0.0.0/0 in '
               "net.deny_out; add --deny-out 0.0.0.0/0, or drop --compat e2b: then allow_out alone "
               "denies the rest\n"), "E4 with --compat e2b a name needs deny-all", ran)
    ran = nsbox("policy", "check", "--compat", "e2b", "--deny-out", "0.0.0.0/0", path)
    tap.equal((ran.rc, ran.err), (0, b""), "E4 with deny-all it is fine", ran)
    ran = nsbox("policy", "check", "--compat", "e2b", "--net", "filtered", "--deny-out", "a.test")
    tap.ok(ran.rc == 125 and b"addresses and CIDRs only" in ran.err, "E4 no name may be denied", ran)
    ran = nsbox("policy", "check", "-p", path, path)
    tap.equal(ran.rc, 125, "-p and operands exclude each other", ran)


def a_proxys_password_is_nowhere(tap):
    url = "http://user:sesame@proxy.test:3128"
    for verb in (("show",), ("check",), ("explain", "--to", "a.test")):
        ran = nsbox("policy", *verb, "--set", f"net.proxy={url}")
        tap.ok(b"sesame" not in ran.out + ran.err, f"policy {verb[0]} hides it", ran)
    ran = nsbox("policy", "show", "--set", f"net.proxy={url}")
    tap.equal(json.loads(ran.out)["net"]["proxy"], "http://user:***@proxy.test:3128",
              "policy show has the rest", ran)
    ran = nsbox("policy", "check", "--set", "net.proxy=ftp://user:sesame@proxy.test:21")
    tap.ok(ran.rc == 125 and b"sesame" not in ran.err, "an error about it hides it", ran)


def ten_thousand_entries_are_read_and_judged(tap):
    path = os.path.join(SCRATCH, "many.json")
    names = [f"h{i}.example.org" for i in range(10000)]
    nets = [f"198.{51 + i // 65536}.{i // 256 % 256}.{i % 256}" for i in range(10000)]
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"net": {"mode": "filtered", "allow_out": names, "deny_out": nets}}, f)
    for to, rc in (("h9999.example.org", 0), ("h10000.example.org", 122), ("198.51.39.15", 122)):
        ran = nsbox("policy", "explain", "-p", path, "--to", to)
        tap.equal(ran.rc, rc, f"among 20,000 entries: {to}", ran)
        tap.takes(ran.wall, 0, 5, f"in time: {to}", ran)


if __name__ == "__main__":
    run_tests([each_destination_is_explained, the_metadata_address_is_denied_in_every_spelling,
               json_says_the_same, what_is_wrong_is_one_line_and_125,
               check_warns_of_rules_without_effect, e2bs_rules_are_asked_for_by_a_flag,
               a_proxys_password_is_nowhere, ten_thousand_entries_are_read_and_judged])
