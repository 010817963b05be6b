"""Child processes: output, input, exit codes, a pipeline, a timeout.

    nsbox code examples/subprocess_demo.py
"""

import subprocess
import sys


def main():
    done = subprocess.run(["sort", "-n"], input="10\n9\n8\n", capture_output=True, text=True,
                          check=True)
    print("sorted:", done.stdout.split())

    done = subprocess.run(["sh", "-c", "echo to stderr >&2; exit 7"], capture_output=True,
                          text=True, check=False)
    print("exit code:", done.returncode, "stderr:", done.stderr.strip())

    child = subprocess.run([sys.executable, "-c", "import sys; print(sum(map(int, sys.stdin)))"],
                           input="1\n2\n39\n", capture_output=True, text=True, check=True)
    print("python child:", child.stdout.strip())

    first = subprocess.Popen(["seq", "1", "1000"], stdout=subprocess.PIPE)
    last = subprocess.run(["wc", "-l"], stdin=first.stdout, capture_output=True, text=True,
                          check=True)
    first.stdout.close()
    first.wait()
    print("pipeline:", last.stdout.strip())

    try:
        subprocess.run(["sleep", "30"], timeout=0.2, check=False)
    except subprocess.TimeoutExpired as error:
        print("timed out:", error.cmd[0])


if __name__ == "__main__":
    main()
