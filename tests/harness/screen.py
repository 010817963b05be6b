"""A pseudo-terminal with a command on it."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from box import SCRATCH, environ


class Terminal:
    """A command on a fresh terminal of 30 x 100, as a person would run it."""

    def __init__(self, *argv, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(SCRATCH)
            time.sleep(0.1)
            os.execve(argv[0], argv, environ({"TERM": "xterm", **(env or {})}))
        self.resize(30, 100)
        self.out = b""
        self.status = None

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text)

    def expect(self, text, seconds=5):
        """Read until @text has come; what it saw stays in self.out."""
        end = time.monotonic() + seconds
        while text not in self.out and time.monotonic() < end:
            if not select.select([self.fd], [], [], 0.05)[0]:
                continue
            try:
                self.out += os.read(self.fd, 4096)
            except OSError:
                break
        return text in self.out

    def settings(self):
        return termios.tcgetattr(self.fd)

    def finish(self, seconds=5):
        end = time.monotonic() + seconds
        self.expect(b"\0no such text\0", 0.2)
        while self.status is None and time.monotonic() < end:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                self.status = os.waitstatus_to_exitcode(status)
            else:
                self.expect(b"\0no such text\0", 0.05)
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)
        return self.status
