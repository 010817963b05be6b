#!/bin/sh
# Compiles hello.c, which stands next to this script, in the current folder; runs it.
#
#     nsbox run --ro examples/hello.c:/src/hello.c --ro examples/build_c.sh:/src/build_c.sh -- sh /src/build_c.sh
set -eu

here=$(dirname "$0")
gcc -O2 -Wall -Wextra -Werror -o hello "$here/hello.c" -lm
./hello sandbox in a small program
rm -f hello
