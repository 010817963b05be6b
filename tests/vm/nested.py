# as: root
"""Where boxes get their cgroup inside a container: the top of what the container sees.

A cgroup namespace with a cgroup2 mount of its own is all that a container is to this.
Runs in a guest of tests/vm, where cgroup2 has the controllers."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, parse_record, run  # noqa: E402
from host import become_reaper  # noqa: E402
from tap import needs, run_tests  # noqa: E402

TOP = "/sys/fs/cgroup"
CONTAINER = f"{TOP}/nested-test"
KERNEL = {"memory": "kernel", "pids": "kernel", "cpu": "kernel"}
HOG = "/usr/bin/python3 -c 'b = \"x\" * 10**9'"


def text_of(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def has_controllers():
    return os.path.exists(f"{TOP}/cgroup.controllers") and "memory" in text_of(f"{TOP}/cgroup.controllers").split()


def put(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def in_container(script):
    """A shell in a fresh container; it may exec, to be alone there."""
    put(f"{TOP}/cgroup.subtree_control", "+memory +pids +cpu")
    os.makedirs(CONTAINER, exist_ok=True)
    enter = (f"echo $$ >{CONTAINER}/cgroup.procs && exec unshare -m -C --propagation private sh -c "
             f"'umount -l {TOP}; mount -t cgroup2 cgroup2 {TOP}; . $0' ")
    path = os.path.join(SCRATCH, "script.sh")
    put(path, script)
    return run(["sh", "-c", enter + path])


def leave_container():
    for root, dirs, _ in os.walk(CONTAINER, topdown=False):
        for name in dirs:
            os.rmdir(os.path.join(root, name))
    os.rmdir(CONTAINER)


def strengths(ran):
    return {name: ran["enforced"][name] for name in KERNEL}


@needs(has_controllers, "the memory controller in cgroup v2")
def the_only_process_of_a_container_moves_itself(tap):
    ran = in_container(f"exec {NSBOX} doctor --json")
    found = json.loads(ran.out.decode())
    tap.equal((found["cgroup_step"], found["status"]), ("own", "full"), "doctor names the step", found)
    tap.equal([n for n in os.listdir(CONTAINER) if n.startswith("nsbox")], [], "and has changed nothing")
    ran = in_container(f"exec {NSBOX} run --json --require kernel -m 64M -- {HOG}")
    ran.record = parse_record(ran)
    tap.equal((ran.rc, ran["verdict"], strengths(ran)), (123, "out_of_memory", KERNEL), "limits are the kernel's", ran)
    left = [n for n in os.listdir(CONTAINER) if n.startswith("nsbox-")]
    tap.equal(len(left), 1, "the leaf that nsbox moved into stays behind, empty")
    tap.equal(text_of(f"{CONTAINER}/{left[0]}/cgroup.procs"), "", "with nobody in it")
    leave_container()


@needs(has_controllers, "the memory controller in cgroup v2")
def a_container_with_a_shell_is_told_what_to_do(tap):
    ran = in_container(f"{NSBOX} doctor --json")
    found = json.loads(ran.out.decode())
    tap.equal(found["cgroup_step"], "bare", "beside a shell there are no controllers", found)
    remedy = next(c["remedy"] for c in found["checks"] if c["name"] == "memory_limit")
    match = re.search(r"in its shell: (.*)$", remedy)
    tap.ok(match, "doctor gives the lines for the container's start", remedy)
    ran = in_container(f"{NSBOX} run --require kernel -- true; exit $?")
    tap.ok(ran.rc == 125 and b"/sys/fs/cgroup/init" in ran.err, "and so does a refusal", ran)
    os.makedirs(f"{CONTAINER}/nsbox-99999999-1")
    ran = in_container(f"{match[1]}\n{NSBOX} doctor --json")
    tap.equal(json.loads(ran.out.decode())["cgroup_step"], "above", "the very lines give them", ran)
    ran = in_container(f"{NSBOX} doctor --json")
    tap.ok(ran.rc not in (0, 125) and not ran.out, "(a container that has controllers takes no process at its top)", ran)
    put(f"{CONTAINER}/cgroup.subtree_control", "-memory -pids -cpu")
    ran = in_container(f"{match[1]}\n{NSBOX} run --json --require kernel -m 64M -- {HOG}; exit $?")
    ran.record = parse_record(ran)
    tap.equal((ran.rc, ran["verdict"], strengths(ran)), (123, "out_of_memory", KERNEL), "boxes have limits then", ran)
    tap.equal([n for n in os.listdir(CONTAINER) if n.startswith("nsbox")], [],
              "nothing is left, and what an earlier run left was swept")
    leave_container()


@needs(has_controllers, "the memory controller in cgroup v2")
def nobody_is_moved_who_did_not_agree(tap):
    path = os.path.join(SCRATCH, "here.json")
    put(path, '{"enforce": {"cgroup": "here"}}')
    # less than a core: a whole one is no limit where there is only one
    ran = in_container(f"exec {NSBOX} run --json --cpus 0.5 -p {path} -- true")
    ran.record = parse_record(ran)
    tap.equal(set(strengths(ran).values()), {"userspace"}, "enforce.cgroup=here keeps nsbox where it is", ran)
    ran = in_container(f"exec {NSBOX} run --require kernel -p {path} -- true")
    tap.ok(ran.rc == 125 and b"enforce.cgroup" in ran.err, "the refusal names the key", ran)
    leave_container()


if __name__ == "__main__":
    become_reaper()
    run_tests([the_only_process_of_a_container_moves_itself, a_container_with_a_shell_is_told_what_to_do,
               nobody_is_moved_who_did_not_agree])
