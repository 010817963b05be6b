#!/usr/bin/env python3
# as: user
"""`make install` into a folder, then what a stranger does with it: pkg-config,
compile, link both ways, run; and `make uninstall` leaves nothing."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap  # noqa: E402

EXPECTED = """bin/nsbox libexec/nsbox/nsbox-policyc include/nsbox.h lib/libnsbox.a lib/libnsbox.so
    lib/libnsbox.so.0 lib/pkgconfig/nsbox.pc share/man/man1/nsbox.1 share/man/man5/nsbox.5
    share/man/man3/libnsbox.3 share/bash-completion/completions/nsbox share/doc/nsbox/LICENSE
    share/doc/nsbox/README.md""".split()
if os.path.exists("build/bin/nsbox-egress"):
    EXPECTED.append("libexec/nsbox/nsbox-egress")
if os.path.exists("build/bin/nsbox-scope"):     # built where libsystemd's header is
    EXPECTED.append("libexec/nsbox/nsbox-scope")
if os.path.exists("build/bin/nsbox-veth"):      # built where the headers of libnl and libmnl are
    EXPECTED.append("libexec/nsbox/nsbox-veth")


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def make(target, destination):
    # The suites run with what was built: nothing here may build.
    return run("make", "-s", "-o", "all", target, f"DESTDIR={destination}", "PREFIX=/opt/nsbox")


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, names in os.walk(folder) for name in names)


def installed_files(t, destination):
    done = make("install", destination)
    t.equal(done.returncode, 0, "make install works with DESTDIR and PREFIX", done.stderr)
    prefix = os.path.join(destination, "opt/nsbox")
    missing = [path for path in EXPECTED if not os.path.exists(os.path.join(prefix, path))]
    t.equal(missing, [], "everything that should be installed is")
    t.equal([p for p in files_below(destination) if not p.startswith("opt/nsbox/")], [],
            "nothing is installed outside PREFIX")
    text = "".join(open(os.path.join(prefix, "lib/pkgconfig/nsbox.pc"), encoding="utf-8"))
    t.ok(destination not in text and "prefix=/opt/nsbox\n" in text, "nsbox.pc names PREFIX and not DESTDIR")
    done = run("bash", "-n", os.path.join(prefix, "share/bash-completion/completions/nsbox"))
    t.equal((done.returncode, done.stderr), (0, ""), "the completion is valid bash")
    return prefix


def flags(prefix, destination, *options):
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(prefix, "lib/pkgconfig"),
                       PKG_CONFIG_SYSROOT_DIR=destination)
    done = run("pkg-config", *options, "nsbox", env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def program_is_built_and_run(t, prefix, destination, folder):
    if not shutil.which("pkg-config"):
        t.skip("a program is built with pkg-config", "pkg-config")
        return
    source = "examples/embed.c"
    library = os.path.join(prefix, "lib")
    for name, options, environment in (
            ("shared", [], {"LD_LIBRARY_PATH": library}),
            ("static", [os.path.join(library, "libnsbox.a"), "-ljansson"], {})):
        program = os.path.join(folder, name)
        wanted = flags(prefix, destination, "--cflags") + (options or flags(prefix, destination, "--libs"))
        done = run("gcc", "-Wall", "-Wextra", "-Werror", source, "-o", program, *wanted)
        t.equal(done.returncode, 0, f"{source} compiles and links with the {name} library", done.stderr)
        if done.returncode:
            continue
        needed = run("readelf", "-dW", program).stdout
        t.equal("libnsbox.so.0" in needed, name == "shared", f"the {name} program needs what it should")
        done = run(program, env=dict(os.environ, **environment))
        t.equal((done.returncode, done.stderr), (0, ""), f"the {name} program runs a box", done.stdout)
        t.ok(done.stdout.strip(), f"the {name} program printed what its box said")


SNIPPET_HEAD = """#include <err.h>
#include <nsbox.h>
#include <stdio.h>
static int complain(const struct nsbox_error *e)
{
	fprintf(stderr, "%s; %s\\n", e->message, e->hint);
	return 2;
}
int main(void)
{
"""
# A snippet may leave these to its reader.
SNIPPET_NAMES = """struct nsbox_error err = NSBOX_ERROR_INIT;
struct nsbox_run run = NSBOX_RUN_INIT;
struct nsbox_policy *policy = NULL;
struct nsbox_box *box = NULL;
struct nsbox_result *res = NULL;
"""
SNIPPET_TAIL = """
printf("[%s]", (const char *)nsbox_result_stdout(res, NULL));
(void)complain;
nsbox_result_free(res);
nsbox_box_close(box);
nsbox_policy_free(policy);
return 0;
}
"""
CXX_PROGRAM = """#include <nsbox.h>
#include <iostream>
#include <memory>
#include <string>
template <typename T, void (*F)(T *)> struct Free { void operator()(T *p) const { F(p); } };
using Policy = std::unique_ptr<nsbox_policy, Free<nsbox_policy, nsbox_policy_free>>;
using Box = std::unique_ptr<nsbox_box, Free<nsbox_box, nsbox_box_close>>;
using Result = std::unique_ptr<nsbox_result, Free<nsbox_result, nsbox_result_free>>;
int main()
{
	nsbox_error err = NSBOX_ERROR_INIT;
	nsbox_run run = NSBOX_RUN_INIT;
	nsbox_policy *policy = nullptr;
	nsbox_box *box = nullptr;
	nsbox_result *result = nullptr;
	const char *const argv[] = {"echo", "from C++", nullptr};
	run.argv = argv;
	if (nsbox_policy_new(&policy, "strict", &err) < 0)
		return std::cerr << err.message, 2;
	Policy own_policy(policy);
	if (nsbox_box_open(&box, NSBOX_TIER_LOCAL, policy, &err) < 0)
		return std::cerr << err.message, 2;
	Box own_box(box);
	if (nsbox_box_run(box, &run, &result, &err) < 0)
		return std::cerr << err.message, 2;
	Result own_result(result);
	size_t len = 0;
	auto text = static_cast<const char *>(nsbox_result_stdout(result, &len));
	std::cout << std::string(text, len);
	return nsbox_result_exit_code(result);
}
"""


def snippets():
    """(where, C text) of every example of the library in the documents."""
    readme = open("README.md", encoding="utf-8").read()
    manual = open("tools/man/libnsbox.3", encoding="utf-8").read()
    header = open("runtime/include/nsbox.h", encoding="utf-8").read()
    found = [("README.md", text) for text in re.findall(r"```c\n(.*?)```", readme, re.S)]
    found += [("libnsbox(3)", text.replace("\\e", "\\"))
              for text in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed", manual, re.S | re.M)]
    text = re.search(r"shortest useful program:\n(.*?)\n \* Rules", header, re.S).group(1)
    found.append(("nsbox.h", re.sub(r"^ \*\t?", "", text, flags=re.M)))
    return [(where, text) for where, text in found if "nsbox_box_run(" in text]


def documented_programs_work(t, prefix, destination, folder):
    """What the documents show compiles as it stands, and does what it says."""
    found = snippets()
    t.equal(sorted(where for where, _ in found), ["README.md", "libnsbox(3)", "nsbox.h"],
            "three documents show how to run code")
    wanted = flags(prefix, destination, "--cflags", "--libs")
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(prefix, "lib"))
    for number, (where, text) in enumerate(found):
        program = os.path.join(folder, f"snippet{number}")
        names = [line for line in SNIPPET_NAMES.splitlines()
                 if not re.search(r"\b\*?%s\b\s*[;=]" % re.search(r"\*?(\w+) = ", line).group(1),
                                  "\n".join(x for x in text.splitlines() if x.startswith(("struct", "\tstruct"))))]
        with open(program + ".c", "w", encoding="utf-8") as f:
            f.write(SNIPPET_HEAD + "\n".join(names) + "\n" + text + SNIPPET_TAIL)
        done = run("gcc", "-Wall", "-Werror", program + ".c", "-o", program, *wanted)
        if not t.equal(done.returncode, 0, f"the example of {where} compiles", done.stderr):
            continue
        done = run(program, env=environment)
        t.equal((done.returncode, done.stderr, done.stdout[-5:]), (0, "", "[42\n]"),
                f"the example of {where} runs", done.stdout)


def a_cxx_program_works(t, prefix, destination, folder):
    if not shutil.which("g++"):
        t.skip("a C++ program compiles, links and runs a box", "g++")
        return
    program = os.path.join(folder, "cxx")
    with open(program + ".cc", "w", encoding="utf-8") as f:
        f.write(CXX_PROGRAM)
    done = run("g++", "-std=c++14", "-Wall", "-Wextra", "-Wpedantic", "-Werror", program + ".cc", "-o", program,
               *flags(prefix, destination, "--cflags", "--libs"))
    if t.equal(done.returncode, 0, "a C++ program compiles and links", done.stderr):
        done = run(program, env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(prefix, "lib")))
        t.equal((done.returncode, done.stderr, done.stdout), (0, "", "from C++\n"), "a C++ program runs a box")


def install_use_uninstall(t):
    with tempfile.TemporaryDirectory(prefix="install.") as folder:
        destination = os.path.join(folder, "destination")
        prefix = installed_files(t, destination)
        program_is_built_and_run(t, prefix, destination, folder)
        documented_programs_work(t, prefix, destination, folder)
        a_cxx_program_works(t, prefix, destination, folder)
        done = make("uninstall", destination)
        t.equal((done.returncode, files_below(destination)), (0, []), "make uninstall leaves no file", done.stderr)


tap.run_tests([install_use_uninstall])
