# as: root user userns container
"""200 launchers killed by SIGKILL at random moments of their life leave nothing (A20, E24)."""

import os
import random
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import ATTACK, IN_BOX, NSBOX, SCRATCH, environ, has_writable_binds, nsbox, run  # noqa: E402
from host import Snapshot, become_reaper, kill_leftovers, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

LAUNCHERS, AT_ONCE = 200, 8
SEED = int(os.environ.get("NSBOX_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
SHARED, OUT = os.path.join(SCRATCH, "killed"), os.path.join(SCRATCH, "killed-out")
CACHE = os.path.join(SCRATCH, "killed-cache")
COLD = "looking for an interpreter"   # its cache is emptied each time
ATTACKER = ("--ro", f"{ATTACK}:{IN_BOX}")
SAVES = "for i in range(20): open(f'/workspace/{i}', 'w').write('x' * 100000)"


def kinds(writable):
    """name -> (arguments, longest delay before the kill in seconds)."""
    found = {
        "just started": (["run", "--", "true"], 0.03),
        "running": (["run", "--timeout", "60", "--", "sleep", "50"], 0.4),
        "deaf daemons": (["run", "--timeout", "60", *ATTACKER, "--", IN_BOX, "deaf", "50"], 0.4),
        "a fork bomb": (["run", "--timeout", "60", "--pids", "32", *ATTACKER, "--", IN_BOX, "fork-bomb", "0"], 0.4),
        "a memory hog": (["run", "-m", "64M", *ATTACKER, "--", IN_BOX, "eat", str(1 << 30)], 0.2),
        "collecting artifacts": (["code", "--artifacts", OUT, "-c", SAVES], 0.3),
        COLD: (["code", "-c", "print(1)"], 0.1),
        "a terminal": (["run", "-t", "--timeout", "60", "--", "sleep", "50"], 0.3),
    }
    if writable:
        found["placeholders being made"] = (["run", "--rw", f"{SHARED}:/w", "--", "true"], 0.03)
        found["placeholders in use"] = (["run", "--timeout", "60", "--rw", f"{SHARED}:/w", "--", "sleep", "50"], 0.4)
    return found


def start(name, arguments):
    env, streams, pty = environ(), subprocess.DEVNULL, ()
    if name == COLD:
        shutil.rmtree(CACHE, ignore_errors=True)
        env = environ({"XDG_CACHE_HOME": CACHE})
    if "-t" in arguments:
        pty = os.openpty()
        streams = pty[1]
    proc = subprocess.Popen([NSBOX, *arguments], env=env, cwd=SCRATCH, stdin=streams, stdout=streams,
                            stderr=subprocess.DEVNULL)
    proc.pty = pty
    return proc


def kill(proc):
    proc.kill()
    status = proc.wait()
    for fd in proc.pty:
        os.close(fd)
    return status == -9


def kill_in_turn(rng, writable):
    """How many of each kind died of the kill, not by themselves."""
    table = kinds(writable)
    died = {name: 0 for name in table}
    flight, names = [], [name for name in table for _ in range(LAUNCHERS // len(table) + 1)]
    rng.shuffle(names)
    del names[LAUNCHERS:]
    while names or flight:
        while names and len(flight) < AT_ONCE:
            name = names.pop()
            arguments, longest = table[name]
            proc = start(name, arguments)
            flight.append((time.monotonic() + rng.uniform(0, longest), name, proc))
        flight.sort(key=lambda row: row[0])
        when, name, proc = flight.pop(0)
        time.sleep(max(0, when - time.monotonic()))
        died[name] += kill(proc)
    return died


def temps():
    found = [n for n in os.listdir(OUT) if n.startswith(".nsbox-")]
    for root, _, files in os.walk(CACHE):
        found += [os.path.join(root, n) for n in files if "." in n]
    return found


def two_hundred_launchers(tap):
    writable = has_writable_binds()
    for place in (SHARED, OUT, CACHE):
        shutil.rmtree(place, ignore_errors=True)
        os.makedirs(place, mode=0o700)
    os.chmod(SHARED, 0o755)
    tap.note(f"seed {SEED} (NSBOX_TEST_SEED={SEED} does it again)")
    if not writable:
        tap.skip("launchers with a writable folder", "idmapped mounts for root of this user namespace")
    tap.equal(nsbox("code", "-c", "print(1)").rc, 0, "control: the same box works when it is let live")
    host = Snapshot()
    began = time.monotonic()
    died = kill_in_turn(random.Random(SEED), writable)
    tap.note(f"{time.monotonic() - began:.1f} s; killed in time: {died}")
    tap.ok(sum(died.values()) > LAUNCHERS // 3, f"{LAUNCHERS} launchers, most were killed before they ended", died)
    tap.ok(all(died.values()), "of each kind at least one", died)
    if not tap.equal(leftovers(5), [], "no process is left"):
        kill_leftovers()
    # What a cgroup and a half-written file need is one sweep; placeholders and mounts not even that.
    tap.equal(os.listdir(SHARED), [], "no placeholder is left")
    swept = nsbox("sweep", SHARED, OUT)
    run([NSBOX, "sweep"], env={"XDG_CACHE_HOME": CACHE})
    tap.note(f"swept: {swept.text() or 'nothing'}")
    tap.equal(swept.rc, 0, "one sweep finds nothing that is still in use", swept)
    tap.equal(host.differences(2), [], "then no mount, cgroup or temporary file is left either")
    tap.equal(temps(), [], "nor a half-written artifact or cache entry")


if __name__ == "__main__":
    become_reaper()
    run_tests([two_hundred_launchers])
