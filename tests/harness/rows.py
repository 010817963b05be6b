"""One row an attack: what it answers in a box, and that it works without one."""

import re
from dataclasses import dataclass, field

from box import AS, attack, attack_in_new_userns, boxed_attack, has_userns

# How the positive control is run.
BARE = "bare"          # by the caller itself
USERNS = "userns"      # by the root of a fresh user namespace, with all other namespaces fresh
ROOT = "root"          # by the host's root; for other callers the kernel says no already


@dataclass
class Row:
    """@inside and @outside are exact answers, or "re:PATTERN" matched as a whole."""
    id: str
    title: str
    act: str
    inside: str
    outside: str
    control: str = BARE
    flags: tuple = ()
    how: dict = field(default_factory=dict)


def matches(got, want):
    if want.startswith("re:"):
        return re.fullmatch(want[3:], got) is not None
    return got == want


def run_control(tap, row):
    name = f"{row.id} without a box: {row.title}"
    act = row.act.split()
    if row.control == USERNS:
        if not has_userns():
            tap.skip(name, "user namespaces")
            return
        got = attack_in_new_userns(*act, **row.how)
    elif row.control == ROOT and AS not in ("root", "noclone3"):
        tap.note(f"{row.id}: the control of '{row.act}' needs root; see the run as root")
        return
    else:
        got = attack(*act, **row.how)
    tap.ok(matches(got, row.outside), name, f"act: {row.act}\nwant: {row.outside}\n got: {got}")


def run_row(tap, row):
    run_control(tap, row)
    got, ran = boxed_attack(row.flags, *row.act.split(), **row.how)
    tap.ok(matches(got, row.inside), f"{row.id} {row.title}",
           f"act: {row.act}\nwant: {row.inside}\n got: {got}\n{ran}")


def run_rows(tap, rows):
    """A row that raises (a hang, an unreadable record) fails alone."""
    for row in rows:
        try:
            run_row(tap, row)
        except AssertionError as e:
            tap.ok(False, f"{row.id} {row.title}", str(e))
