#!/bin/sh
# embed.sh NAME FILE: the bytes of FILE as the initialiser of a C array, on stdout.
# Runs while nsbox is built.
set -eu

name=$1
file=$2
printf '/* Made from %s by tools/gen/embed.sh. */\n' "$file"
printf 'static const unsigned char %s[] = {\n' "$name"
od -An -v -tx1 "$file" | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g; s/^/	/'
printf '};\n'
