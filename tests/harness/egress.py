"""What the suites of the network share: boxes with rules, the client, denials.

An act is one line for the client (netclient.c): "connect api.good.test 80". The same acts
run in a box and without one, so that every refusal has its positive control.
"""

import os
import re

from box import REPO, box, run

CLIENT = os.path.join(REPO, "build/tests/netclient")            # static, musl's resolver
LIBC_CLIENT = os.path.join(REPO, "build/tests/netclient-libc")  # the same with glibc's
# A name that is looked up and denied: not "a failure that may pass" (AGAIN), upon which programs try again.
NOT_FOUND = "eai=NONAME"
REFUSED = "errno=ECONNREFUSED"


def words(acts):
    out = []
    for act in acts:
        out += [*act.split(), ","]
    return out[:-1]


def lines_of(ran):
    return ran.text().split("\n")


def outside(*acts, client=LIBC_CLIENT, **how):
    """The answers without a box."""
    return lines_of(run([client, *words(acts)], **how))


def allow(*destinations):
    """Flags of a filtered network that has these."""
    flags = ["--net", "filtered"]
    for one in destinations:
        flags += ["--allow-out", one]
    return flags


def inside(flags, *acts, client=LIBC_CLIENT, **how):
    """The answers in a box, and its Ran with the record."""
    ran = box(["--ro", f"{client}:/netclient", *flags], "/netclient", *words(acts), **how)
    if ran["verdict"] != "exited" or ran["exit_code"] != 0:
        return [f"[{ran['verdict']} {ran['exit_code']} {ran['signal']}]"], ran
    return ran["stdout"].strip().split("\n"), ran


def denials(ran):
    """[(what, rule, allow)] of the egress layer."""
    return [(d["what"], d["rule"], d["allow"]) for d in ran["denials"] if d["layer"] == "egress"]


def has_denial(tap, ran, what, rule, flag, name):
    """One denial is exactly (what, rule, flag); "re:PATTERN" stands for a part of text."""
    def fits(got, want):
        return re.fullmatch(want[3:], got or "") if want.startswith("re:") else (got or "") == want

    found = [d for d in denials(ran) if all(map(fits, d, (what, rule, flag)))]
    return tap.equal(len(found), 1, name, f"want: {(what, rule, flag)}\nthere: {denials(ran)}\n{ran}")


def host_counters(ran, name):
    """The counters of one host in the record; None: it is not there."""
    return next((h for h in ran["network"]["hosts"] or [] if h["name"] == name), None)


def both(tap, flags, rows, title, client=LIBC_CLIENT):
    """Rows of (act, answer without a box, answer in it): two runs for all of them."""
    acts = [row[0] for row in rows]
    bare = outside(*acts, client=client)
    tap.equal(bare, [row[1] for row in rows], f"{title}: what the same acts do without a box")
    got, ran = inside(flags, *acts, client=client)
    for i, (act, _, want) in enumerate(rows):
        answer = got[i] if i < len(got) else None
        if isinstance(want, tuple):
            tap.among(answer, want, f"{title}: {act}", ran)
        else:
            tap.equal(answer, want, f"{title}: {act} is {want}", ran)
    return ran
