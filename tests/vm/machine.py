"""One virtual machine: QEMU, its view of the host's files, its end.

Everything started here dies with the Machine, and with this process: both daemons
and QEMU get a parent-death signal.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time

VIRTIOFSD = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd")
QEMU = "qemu-system-x86_64"
# TCG: software emulation, several processors on as many threads.
ACCEL = {"kvm": ("-accel", "kvm", "-cpu", "host"),
         "tcg": ("-accel", "tcg,thread=multi", "-cpu", "max")}
QUIET = "console=ttyS0 quiet panic=-1 reboot=t tsc=reliable mitigations=off random.trust_cpu=on"


def start(argv, **how):
    """A process that does not outlive this one."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *argv], stdin=subprocess.DEVNULL, **how)


def stop(proc):
    if proc and proc.poll() is None:
        proc.send_signal(signal.SIGKILL)
    if proc:
        proc.wait()


class Share:
    """The host's files for the guest, read-only: by virtiofs, or else by 9p."""

    def __init__(self, log):
        self.daemon = None
        # elsewhere: the path of a socket has 107 bytes, a checkout's may be longer
        self.folder = tempfile.mkdtemp(prefix="nsbox-vm.")
        self.socket = os.path.join(self.folder, "host")
        self.log = log
        self.kind = "virtiofs" if self._serve() else "9p"

    def _command(self):
        """virtiofsd's, or None where there is none that would serve this caller: the C
        one (QEMU before 8) wants root; the one in Rust has other options."""
        program = next((p for p in VIRTIOFSD if os.access(p, os.X_OK)), None)
        if not program or os.environ.get("NSBOX_VM_SHARE") == "9p":
            return None
        said = subprocess.run([program, "--help"], capture_output=True, text=True)
        root = os.geteuid() == 0
        if "--shared-dir" in said.stdout + said.stderr:
            return [program, f"--socket-path={self.socket}", "--shared-dir=/", "--cache=always",
                    f"--sandbox={'chroot' if root else 'none'}"]
        return root and [program, f"--socket-path={self.socket}", "-o", "source=/", "-o", "cache=always",
                         "-o", "sandbox=chroot"]

    def _serve(self):
        argv = self._command()
        if not argv:
            return False
        with open(self.log, "wb") as log:
            self.daemon = start(argv, stdout=log, stderr=log)
        end = time.monotonic() + 5
        while not os.path.exists(self.socket):
            if self.daemon.poll() is not None or time.monotonic() > end:
                self._end()
                return False
            time.sleep(0.02)
        return True

    def options(self, memory):
        if self.kind == "virtiofs":     # the daemon reads the guest's memory
            return ["-object", f"memory-backend-memfd,id=ram,size={memory}M,share=on", "-numa",
                    "node,memdev=ram", "-chardev", f"socket,id=host,path={self.socket}", "-device",
                    "vhost-user-fs-pci,chardev=host,tag=host,queue-size=1024"]
        return ["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
                "-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]

    def _end(self):
        stop(self.daemon)
        self.daemon = None

    def close(self):
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)


class Machine:
    """Started by its constructor; result lines come to the file `results` in @place. Closes
    the @share, where there is one, at its end."""

    def __init__(self, place, kernel, archive, accel, words="", memory=1536, seconds=60, share=None):
        self.began, self.seconds, self.share = time.monotonic(), seconds, share
        self.results = os.path.join(place, "results")
        self.console = os.path.join(place, "console.log")
        argv = [QEMU, "-M", "q35", *ACCEL[accel], "-smp", "1", "-m", str(memory), "-nodefaults",
                "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio", "-kernel",
                kernel.image, "-initrd", archive, "-append", f"{QUIET} {words}",
                "-device", "virtio-serial-pci", "-chardev", f"file,id=results,path={self.results}",
                "-device", "virtserialport,chardev=results,name=results"]
        if share:
            argv += share.options(memory)
        with open(self.console, "wb") as console:
            self.qemu = start(argv, stdout=console, stderr=console)

    def running(self):
        return self.qemu.poll() is None

    def late(self):
        return time.monotonic() - self.began > self.seconds

    def close(self):
        """The machine's end, whatever state it is in; the seconds it lived."""
        stop(self.qemu)
        if self.share:
            self.share.close()
        return time.monotonic() - self.began

    def last_lines(self, count=8):
        with open(self.console, encoding="utf-8", errors="replace") as f:
            return [line.rstrip() for line in f][-count:]


def is_installed():
    return shutil.which(QEMU) is not None
