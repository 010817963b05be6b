#!/usr/bin/env python3
# as: user
"""The library's and the command's outside: symbols, sizes, sections, neighbours.

Everything here reads what was built; nothing is run as root and no box is made.
"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap  # noqa: E402

LIBRARY = "build/lib/libnsbox.so"
ARCHIVE = "build/lib/libnsbox.a"
COMMAND = os.environ.get("NSBOX", "build/bin/nsbox")
COMPILER = "build/bin/nsbox-policyc"
KEEPER = "build/bin/nsbox-scope"        # where libsystemd's header is
PROGRAMS = [path for path in (COMPILER, KEEPER) if os.path.exists(path)]
HEADER = "runtime/include/nsbox.h"
MANUAL = "tools/man/libnsbox.3"

# A library that may live in any process must not be able to call these.
FORBIDDEN = """exit _Exit quick_exit abort __assert_fail __assert
    printf fprintf vprintf vfprintf dprintf vdprintf puts fputs putchar fputc putc fwrite perror psignal
    __printf_chk __fprintf_chk __vprintf_chk __vfprintf_chk __dprintf_chk __vdprintf_chk stdout stderr
    err errx verr verrx warn warnx vwarn vwarnx syslog vsyslog
    signal sigaction sigset bsd_signal sysv_signal siginterrupt
    chdir fchdir chroot umask setenv putenv unsetenv clearenv setlocale
    setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups initgroups
    system popen wait wait3 wait4 atexit on_exit __cxa_atexit
    strcpy strcat sprintf __sprintf_chk __strcpy_chk __strcat_chk strtok gets
    pthread_create pthread_atfork __register_atfork dlopen""".split()

LAYOUT = r"""
#include <nsbox.h>
#include <stdio.h>
#define SIZE(t) printf("sizeof %s %zu\n", #t, sizeof(struct t));
#define AT(t, f) printf("offset %s.%s %zu\n", #t, #f, offsetof(struct t, f));
#define VALUE(e) printf("value %s %d\n", #e, (int)e);
int main(void)
{
@ROWS@
	return 0;
}
"""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def undefined(path):
    return {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--undefined-only", path).splitlines()}


def exported():
    """name -> version of every symbol that the library gives to others."""
    found = {}
    for line in output("nm", "-D", "--defined-only", LIBRARY).splitlines():
        kind, name = line.split()[1:3]
        if kind != "A":
            symbol, _, version = name.partition("@@")
            found[symbol] = version
    return found


def declared():
    header = re.sub(r"/\*.*?\*/", "", text_of(HEADER), flags=re.S)
    return set(re.findall(r"NSBOX_API[^;(]*?\b(nsbox_\w+)\s*\(", header))


def exports_are_the_reviewed_list(t):
    t.equal(sorted(exported()), sorted(lines_of("tests/abi/exported")), "the library exports the reviewed list")
    t.equal(declared(), set(exported()), "what nsbox.h declares and what is exported are the same")
    t.equal({v for v in exported().values()}, {"NSBOX_0.1"}, "every export carries its version")


def exports_are_documented(t):
    manual = text_of(MANUAL)
    missing = [name for name in sorted(exported()) if not re.search(r"^\.F[no] \"?%s\b" % name, manual, re.M)]
    t.equal(missing, [], "libnsbox(3) documents every export with .Fn or .Fo")


def library_cannot_touch_its_host(t):
    t.equal(sorted(undefined(LIBRARY) & set(FORBIDDEN)), [], "the library calls nothing that a guest must not")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bad.so")
        source = "#include <stdlib.h>\n#include <stdio.h>\nvoid f(int i) { printf(\"%d\", i); exit(i); }\n"
        subprocess.run(["gcc", "-xc", "-", "-shared", "-fPIC", "-o", path], input=source, text=True, check=True)
        t.equal(sorted(undefined(path) & set(FORBIDDEN)), ["exit", "printf"], "the same check finds exit and printf")


def archive_keeps_its_names(t):
    names = {line.split()[-1] for line in output("nm", "-g", "--defined-only", ARCHIVE).splitlines()
             if len(line.split()) == 3}
    t.equal(names, declared(), "the static library defines the public names and no other")


def neighbours_are_few(t):
    needed = set(re.findall(r"NEEDED.*\[(.+)\]", output("readelf", "-dW", LIBRARY)))
    t.equal(needed, {"libc.so.6", "libjansson.so.4"}, "the library needs libc and jansson alone")
    soname = re.findall(r"SONAME.*\[(.+)\]", output("readelf", "-dW", LIBRARY))
    t.equal(soname, ["libnsbox.so.0"], "the soname is libnsbox.so.0")
    t.equal(output("readelf", "-dW", COMMAND).strip(), "There is no dynamic section in this file.",
            "the command is static")


def products_are_hardened(t):
    for path in (LIBRARY, *PROGRAMS):
        dynamic, segments = output("readelf", "-dW", path), output("readelf", "-lW", path)
        t.ok("BIND_NOW" in dynamic or "NOW" in dynamic, f"{path} binds at start")
        t.ok("GNU_RELRO" in segments, f"{path} makes its tables read-only")
        t.ok("TEXTREL" not in dynamic, f"{path} has no text relocations")
        t.ok("RPATH" not in dynamic and "RUNPATH" not in dynamic, f"{path} has no search path of its own")
    for path in PROGRAMS:
        t.ok("DYN (Position-Independent Executable" in output("readelf", "-hW", path), f"{path} is PIE")
    for path in (LIBRARY, *PROGRAMS, COMMAND, "build/gen/init.bin"):
        segments = output("readelf", "-lW", path)
        t.equal(re.findall(r"^\s+GNU_STACK.*?\b(RW\w?)\s+0x", segments, re.M), ["RW"], f"{path}: no executable stack")
        t.equal(re.findall(r"^\s+LOAD.* RWE .*$", segments, re.M), [], f"{path}: no page writable and executable")
    t.ok("__stack_chk_fail" in undefined(LIBRARY), "the library has stack protectors")


def sizes_and_values_are_pinned(t):
    """tests/abi/layout is append-only: a changed line breaks programs that exist."""
    rows = []
    for line in lines_of("tests/abi/layout"):
        word, name = line.split()[:2]
        what = {"sizeof": "SIZE", "value": "VALUE", "offset": "AT"}[word]
        rows.append("\t%s(%s)" % (what, name.replace(".", ", ")))
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "layout")
        subprocess.run(["gcc", "-xc", "-", "-Iruntime/include", "-o", program], check=True, text=True,
                       input=LAYOUT.replace("@ROWS@", "\n".join(rows)))
        t.equal(output(program).splitlines(), lines_of("tests/abi/layout"), "sizes, offsets and values are the pinned ones")
    header = re.sub(r"/\*.*?\*/", "", text_of(HEADER), flags=re.S)
    pinned = {line.split()[1] for line in lines_of("tests/abi/layout")}
    values = set(re.findall(r"\b(NSBOX_[A-Z_]+) = ", header))
    t.equal(sorted(values - pinned), [], "every enumerator of nsbox.h is pinned")


tap.run_tests([exports_are_the_reviewed_list, exports_are_documented, library_cannot_touch_its_host,
               archive_keeps_its_names, neighbours_are_few, products_are_hardened, sizes_and_values_are_pinned])
