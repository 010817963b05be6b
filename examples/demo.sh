#!/bin/sh
# make demo: every example in a box of its own, one after the other. Says what each
# does, shows the command and its output; what a box made is kept in build/demo.
# Ends with a failure when one of them failed. NSBOX: another nsbox binary.
set -u
cd "$(dirname "$0")/.." || exit 1
nsbox=${NSBOX:-build/bin/nsbox}
out=build/demo
failed=0 shown=0
# The interpreter that has numpy and its friends is the distribution's.
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3)

[ -x "$nsbox" ] || {
	echo "demo: $nsbox is not built; run: make" >&2
	exit 1
}
rm -rf "$out"
mkdir -p "$out"

show() { # show TITLE EXPECTED-STATUS ARGUMENT...
	if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$1"; else printf '\n%s\n' "$1"; fi
	expected=$2
	shift 2
	printf '$ nsbox'
	for word; do
		case $word in
		*[!A-Za-z0-9_./:=,+-]*) printf " '%s'" "$word" ;;
		*) printf ' %s' "$word" ;;
		esac
	done
	printf '\n'
	"$nsbox" "$@"
	status=$?
	shown=$((shown + 1))
	[ "$status" -eq "$expected" ] || {
		echo "demo: exit status $status, expected $expected" >&2
		failed=$((failed + 1))
	}
}

code() { # code TITLE ARGUMENT...: an example that must succeed
	title=$1
	shift
	show "$title" 0 code "$@"
}

show "What a box sees: its own ids, no home, no secrets" 1 \
	run -- sh -c 'id -u; hostname; ls -A / /home; cat /etc/shadow'
code "One line of Python" -c 'import platform; print("hello from Python", platform.python_version())'
code "Statistics over a CSV file that is bound read-only" \
	--interpreter "$python" --ro examples/data examples/csv_stats.py
code "numpy, pandas and matplotlib; the plot comes out as an artifact" \
	--interpreter "$python" --artifacts "$out/plot" examples/plot.py
code "A pool of processes and shared memory" --interpreter "$python" examples/pool.py
code "A database file" --interpreter "$python" examples/sqlite_demo.py
code "Child processes" --interpreter "$python" examples/subprocess_demo.py
code "Thousands of coroutines" --interpreter "$python" examples/asyncio_demo.py
if command -v node >/dev/null; then
	code "Node: worker threads and files" examples/workers.js
else
	echo "demo: node is not installed: examples/workers.js not shown" >&2
fi
code "A shell pipeline" examples/pipeline.sh
show "Compile a C program and run it, in one box" 0 \
	run --ro examples/hello.c:/src/hello.c --ro examples/build_c.sh:/src/build_c.sh -- sh /src/build_c.sh
show "pytest on a small project" 0 \
	run --ro examples/pytest_project:/src -w /src -- "$python" -B -m pytest -q -p no:cacheprovider
show "git init, commit, log" 0 \
	run --ro examples/git_demo.sh:/src/git_demo.sh -- sh /src/git_demo.sh
show "A program that does not end is ended" 124 \
	code --timeout 1 -c 'import time; print("working", flush=True); time.sleep(60)'
show "The record of a run, for programs" 3 code --json -c 'import os, sys; print(os.getuid()); sys.exit(3)'

printf '\n%d shown, %d failed; artifacts:\n' "$shown" "$failed"
find "$out" -type f
[ "$failed" -eq 0 ]
