# as: user nouserns
"""What the command says and how it ends, as far as no box is needed for it."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, environ, nsbox  # noqa: E402
from tap import run_tests  # noqa: E402

VERBS = ("run", "code", "check", "policy show", "policy check", "policy explain", "policy schema", "doctor", "sweep",
         "version", "help")

# Arguments, and the one line that stderr must carry; stdout stays empty.
MISTAKES = [
    ([], "no verb given; 'nsbox help' lists them"),
    (["rnu"], "unknown verb 'rnu'; did you mean 'run'?"),
    (["--json"], "a verb comes first, then flags like '--json'; for example: nsbox run --json "
                 "-- CMD"),
    (["policy"], "no verb of policy given; there are show, check, explain and schema"),
    (["policy", "shw"], "unknown verb 'policy shw'; did you mean 'policy show'?"),
    (["run"], "no command given; say what to run: nsbox run [FLAGS] [--] CMD [ARG...]"),
    (["run", "--"], "no command given; say what to run: nsbox run [FLAGS] [--] CMD [ARG...]"),
    (["run", ""], "no command given; say what to run: nsbox run [FLAGS] [--] CMD [ARG...]"),
    (["run", "--memry", "1G", "true"],
     "unknown flag '--memry' of 'nsbox run'; did you mean '--memory'?"),
    (["run", "-m"], "--memory needs a value: SIZE"),
    (["run", "--allow-out", "", "true"],
     "--allow-out wants DESTINATION, not ''; '--set net.allow_out=' is an empty list"),
    (["policy", "check", "--deny-out="],
     "--deny-out wants DESTINATION, not ''; '--set net.deny_out=' is an empty list"),
    (["run", "--json=1", "true"], "--json takes no value"),
    (["run", "-p", "pythonn", "true"], "unknown profile 'pythonn'; did you mean 'python'?"),
    (["run", "-p", "./none.json", "true"], "open ./none.json: No such file or directory"),
    (["run", "-p", "strict", "-p", "build", "true"],
     "two profiles, 'strict' and 'build': a policy starts from one"),
    (["run", "-t", "true"], "-t needs a terminal on standard input and output; use -i to pass a "
                            "pipe or a file on"),
    (["run", "--status-fd", "87", "true"],
     "descriptor 87 of --status-fd is not open; open it in the shell, as in --status-fd 3 "
     "3>status.json"),
    (["run", "--env-file", "./none", "true"], "open ./none: No such file or directory"),
    (["run", "--interpreter", "no-such-python", "true"],
     "interpreter 'no-such-python' is not on PATH; give its path"),
    (["code"], "no code given; say what to run: nsbox code (-c CODE | FILE | -) [ARG...]"),
    (["code", "--language", "pythonn", "-c", "1"], "unknown language 'pythonn'; did you mean 'python'?"),
    (["code", "-i", "-"], "'-' reads the code from standard input, so -i and -t cannot; give the "
                          "code with -c or as a file"),
    (["doctor", "x"], "'nsbox doctor' does not take 'x'"),
    (["help", "rnu"], "no help on 'rnu'; did you mean 'nsbox help run'?"),
    (["check"], "no code given; say what to check: nsbox check (-c CODE | FILE | -)"),
    (["check", "-t", "-c", "1"], "unknown flag '-t' of 'nsbox check'; 'nsbox check --help' lists the flags"),
    (["session", "list"], "'nsbox session' is not in this version; boxes that stay come later; "
                          "use 'nsbox run' for each command"),
]


def every_mistake_is_one_line_and_125(tap):
    for args, line in MISTAKES:
        ran = nsbox(*args)
        tap.equal((ran.rc, ran.out, ran.err.decode()), (125, b"", f"nsbox: {line}\n"),
                  f"nsbox {' '.join(args)}")


def with_json_an_error_is_one_object_and_the_line(tap):
    for args in (["run", "--json", "--memry", "1G", "true"], ["run", "--memry", "--json", "true"],
                 ["run", "--json", "-p", "./none.json", "true"], ["doctor", "--json", "x"]):
        ran = nsbox(*args)
        record = json.loads(ran.out)
        tap.equal((ran.rc, record["schema"], record["exit_status"], ran.out.count(b"\n"),
                   ran.err.count(b"\n")), (125, "nsbox.error/1", 125, 1, 1),
                  f"an error record: nsbox {' '.join(args)}", ran)
        tap.ok(record["message"] and record["message"] in ran.err.decode(),
               "the line on stderr says the same", ran)


def an_error_goes_to_the_status_descriptor_too(tap):
    r, w = os.pipe()
    ran = nsbox("run", "--status-fd", str(w), "-p", "./none.json", "true", pass_fds=(w,))
    os.close(w)
    with os.fdopen(r, "rb") as f:
        tap.equal((ran.rc, json.loads(f.read())["code"], ran.out), (125, "system", b""),
                  "the error record is on the descriptor, stdout stays empty", ran)


def names_in_messages_cannot_drive_a_terminal(tap):
    ran = nsbox("run", "-p", "./\x1b]0;x\x07\nnsbox: all is well", "true")
    tap.equal(ran.err, b"nsbox: open ./?]0;x??nsbox: all is well: No such file or directory\n",
              "control bytes of a file name become question marks")


def values_of_an_environment_file_stay_out_of_errors(tap):
    path = os.path.join(SCRATCH, "cli.env")
    with open(path, "w", encoding="utf-8") as f:
        f.write("A=1\nthe secret\n")
    ran = nsbox("run", "--env-file", path, "true")
    tap.equal((ran.rc, ran.err.decode()),
              (125, f"nsbox: {path}:2: this is no variable; write NAME=VALUE, NAME or # and a "
                    "comment\n"), "the line is named, not shown")


def help_fits_a_terminal(tap):
    for verb in VERBS:
        ran = nsbox(*verb.split(), "--help")
        text = ran.text()
        tap.equal((ran.rc, ran.err), (0, b""), f"nsbox {verb} --help")
        tap.equal([x for x in text.split("\n") if len(x) > 79], [], f"{verb}: 79 columns")
        tap.ok(f"nsbox {verb}" in text, f"{verb}: its usage", text)
    keys = nsbox("help", "keys").text()
    tap.ok("limits.memory" in keys and "512M" in keys, "help keys has keys and defaults", keys)
    tap.ok("strict" in nsbox("help", "profiles").text(), "help profiles has profiles")


def every_flag_that_help_lists_is_known(tap):
    listed = re.findall(r"^ +(?:-\w, )?(--[\w-]+)(?: (\S+))?", nsbox("run", "--help").text(), re.M)
    tap.ok(len(listed) > 30, "help lists the flags", listed)
    for flag, value in listed:
        err = nsbox("run", flag, *(["x"] if value else [])).err.decode()
        tap.ok("unknown flag" not in err, f"{flag} is known", err)


def a_full_or_closed_output_is_an_error(tap):
    with open("/dev/full", "wb") as full:
        proc = subprocess.run([NSBOX, "help"], stdout=full, stderr=subprocess.PIPE, env=environ(),
                              check=False)
    tap.equal((proc.returncode, proc.stderr),
              (125, b"nsbox: write to standard output: No space left on device\n"), "a full disk")
    proc = subprocess.run(["/bin/sh", "-c", '"$0" version >&-', NSBOX], stderr=subprocess.PIPE,
                          env=environ(), check=False)
    tap.equal((proc.returncode, proc.stderr),
              (125, b"nsbox: write to standard output: Bad file descriptor\n"), "a closed one")


def the_completion_completes(tap):
    if not shutil.which("bash"):
        tap.skip("the completion completes", "bash")
        return
    script = nsbox("help", "--completion", "bash").out.decode()
    words = [(["nsbox", "co"], "code"), (["nsbox", "run", "--mem"], "--memory"),
             (["nsbox", "policy", "ex"], "explain"), (["nsbox", "run", "--net", "dis"], "disabled"),
             (["nsbox", "run", "-p", "stri"], "strict"),
             (["nsbox", "run", "--set", "limits.mem"], "limits.memory=")]
    for typed, want in words:
        line = " ".join(f"'{w}'" for w in typed)
        test = (f"{script}\ncompopt() {{ :; }}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(typed) - 1}\n"
                "_nsbox\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")
        ran = subprocess.run(["bash", "-c", test], capture_output=True, env=environ(), check=False)
        tap.ok(want in ran.stdout.decode().split("\n"), f"{' '.join(typed)} -> {want}", ran)


def a_terminal_is_untouched_by_an_error(tap):
    leader, follower = pty.openpty()
    before = termios.tcgetattr(follower)
    proc = subprocess.run([NSBOX, "run", "-t", "-p", "./none.json", "true"], stdin=follower,
                          stdout=follower, stderr=subprocess.PIPE, env=environ(), check=False)
    tap.equal(proc.returncode, 125, "a wrong policy with -t")
    tap.ok(termios.tcgetattr(follower) == before, "its settings are as before")
    os.close(leader)
    os.close(follower)


# --- layers of the policy -----------------------------------------------------

def folder(*names):
    path = os.path.join(SCRATCH, "cli", *names)
    os.makedirs(path, exist_ok=True)
    return path


def put(text, *names):
    with open(os.path.join(folder(*names[:-1]), names[-1]), "w", encoding="utf-8") as f:
        f.write(text)


def shown(*flags, cwd, home=None):
    """limits of the policy that a run would have there, or the error's text."""
    env = {"HOME": home or folder("empty-home")}
    ran = nsbox("policy", "show", *flags, cwd=cwd, env=env)
    return json.loads(ran.out)["limits"] if ran.rc == 0 else ran.err.decode()


def layers_come_in_their_order(tap):
    shutil.rmtree(os.path.join(SCRATCH, "cli"), ignore_errors=True)
    home = folder("home")
    put('{"limits": {"pids": 100, "files": 500}}', "home", ".config", "nsbox", "policy.json")
    put('{"limits": {"pids": 90}, /* comment */}', "home", "repo", ".nsbox.json")
    put('{"limits": {"pids": 300}}', "more.json")
    folder("home", "repo", ".git")
    deep = folder("home", "repo", "a", "b")
    plain = folder("home", "plain")
    tap.equal(shown(cwd=plain)["pids"], 128, "without files: the default")
    tap.equal(shown(cwd=plain, home=home)["pids"], 100, "the user's file loosens or tightens")
    limits = shown(cwd=deep, home=home)
    tap.equal((limits["pids"], limits["files"]), (90, 500), "the project's file tightens on top")
    more = os.path.join(folder(), "more.json")
    tap.equal(shown("-p", more, cwd=deep, home=home)["pids"], 300, "a -p file comes after it")
    tap.equal(shown("-p", more, "--pids", "50", cwd=deep, home=home)["pids"], 50, "a flag is last")
    tap.equal(shown("--pids", "50", "--set", "limits.pids=60", cwd=plain)["pids"], 60,
              "flags count in their order")


def a_project_may_only_tighten(tap):
    path = folder("loose")
    put('{\n  "limits": {"pids": 4000}\n}', "loose", ".nsbox.json")
    got = shown(cwd=path)
    tap.ok(isinstance(got, str) and ".nsbox.json:2:" in got and "limits.pids" in got,
           "loosening is an error that names file, line and key", got)


def a_project_ends_at_its_repository_and_at_home(tap):
    put('{"limits": {"pids": 40}}', "outer", ".nsbox.json")
    folder("outer", "repo", ".git")
    inner = folder("outer", "repo", "sub")
    tap.equal(shown(cwd=inner)["pids"], 128, "a file above the repository does not count")
    user = folder("outer", "user")
    tap.equal(shown(cwd=user, home=user)["pids"], 128, "a file above the home does not count")
    link = os.path.join(folder(), "home-link")
    os.symlink(user, link)
    tap.equal(shown(cwd=user, home=link)["pids"], 128, "also when HOME is a link to it")
    tap.equal(shown(cwd=user)["pids"], 40, "and without such a border it does")


def a_user_file_that_others_may_write_is_refused(tap):
    put('{"limits": {"pids": 100}}', "open-home", ".config", "nsbox", "policy.json")
    home = folder("open-home")
    path = os.path.join(home, ".config/nsbox/policy.json")
    tap.equal(shown(cwd=folder(), home=home)["pids"], 100, "a private one counts")
    os.chmod(path, 0o666)
    got = shown(cwd=folder(), home=home)
    tap.ok(isinstance(got, str) and "can be written by others" in got and "mode 666" in got,
           "one of mode 666 is an error", got)


def an_unreadable_layer_is_an_error(tap):
    os.makedirs(os.path.join(folder("dir-project"), ".nsbox.json"))
    got = shown(cwd=folder("dir-project"))
    tap.ok(isinstance(got, str) and got.endswith("/.nsbox.json is not a file\n"),
           "a folder in the place of a policy", got)
    os.symlink("nowhere", os.path.join(folder("link-project"), ".nsbox.json"))
    got = shown(cwd=folder("link-project"))
    tap.ok(isinstance(got, str) and "No such file" in got, "a link to nothing", got)


def relative_paths_are_the_callers(tap):
    path = folder("paths", "a")
    ran = nsbox("policy", "show", "--ro", ".", "--ro", "../b/:/dest", "--rw", "./c", cwd=path)
    fs = json.loads(ran.out)["fs"]
    up = os.path.dirname(path)
    tap.equal((fs["read"], fs["write"]), ([path, f"{up}/b:/dest"], [f"{path}/c"]),
              "--ro and --rw from the working folder", ran)


if __name__ == "__main__":
    run_tests([every_mistake_is_one_line_and_125, with_json_an_error_is_one_object_and_the_line,
               an_error_goes_to_the_status_descriptor_too,
               names_in_messages_cannot_drive_a_terminal,
               values_of_an_environment_file_stay_out_of_errors, help_fits_a_terminal,
               every_flag_that_help_lists_is_known, a_full_or_closed_output_is_an_error,
               the_completion_completes, a_terminal_is_untouched_by_an_error,
               layers_come_in_their_order, a_project_may_only_tighten,
               a_project_ends_at_its_repository_and_at_home,
               a_user_file_that_others_may_write_is_refused, an_unreadable_layer_is_an_error,
               relative_paths_are_the_callers])
