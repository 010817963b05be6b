#!/usr/bin/env python3
# as: user
"""`make install` into a folder, then what a stranger does with it: pkg-config,
compile, link both ways, run; and `make uninstall` leaves nothing."""

import os
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


def install_use_uninstall(t):
    with tempfile.TemporaryDirectory(prefix="install.") as folder:
        destination = os.path.join(folder, "destination")
        prefix = installed_files(t, destination)
        program_is_built_and_run(t, prefix, destination, folder)
        done = make("uninstall", destination)
        t.equal((done.returncode, files_below(destination)), (0, []), "make uninstall leaves no file", done.stderr)


tap.run_tests([install_use_uninstall])
