"""Kernels for the guests, and the initramfs that starts them.

A kernel comes from a Debian package: the one that is installed, else one that is
downloaded and unpacked below build/vm/kernels. Nothing is installed on the host.
"""

import glob
import os
import re
import shutil
import subprocess

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(REPO, "build/vm")
# What init needs before it has a root: the host's files, the tmpfs above, the way out.
DRIVERS = ("virtio_pci", "virtiofs", "9p", "9pnet_virtio", "overlay", "virtio_console")
UNPACK = {".xz": ["xz", "-dc"], ".zst": ["zstd", "-dqc"], ".gz": ["gzip", "-dc"]}


class Missing(Exception):
    """A guest cannot be had on this host; the text names what is missing."""


class Kernel:
    def __init__(self, release, image, modules):
        self.release, self.image, self.modules = release, image, modules


def command(argv, **how):
    """Its standard output, or Missing with what it said."""
    try:
        ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, **how)
    except OSError as e:
        raise Missing(f"the program {argv[0]} ({e.strerror})") from None
    if ran.returncode != 0:
        said = ran.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise Missing(f"'{' '.join(argv[:3])}' failed: {said}")
    return ran.stdout


def version_key(release):
    return [int(n) for n in re.findall(r"\d+", release)]


def kernels_below(root, series):
    """Kernels unpacked or installed below @root of that series, the newest last."""
    found = []
    for image in glob.glob(os.path.join(root, "boot/vmlinuz-*")):
        release = os.path.basename(image)[len("vmlinuz-"):]
        for lib in ("lib", "usr/lib"):
            modules = os.path.join(root, lib, "modules", release)
            if re.match(re.escape(series) + r"[.-].*cloud-amd64$", release) and os.path.isdir(modules):
                found.append(Kernel(release, image, modules))
                break
    return sorted(found, key=lambda k: version_key(k.release))


def packages_of(series):
    """Names of signed kernel packages of that series that apt knows, the newest last."""
    names = command(["apt-cache", "pkgnames", f"linux-image-{series}"]).decode().split()
    fitting = re.compile(rf"linux-image-{re.escape(series)}\.[0-9].*-cloud-amd64")
    return sorted((n for n in names if fitting.fullmatch(n)), key=version_key)


def downloaded(series):
    names = packages_of(series)
    if not names:
        raise Missing(f"a package linux-image-{series}.*-cloud-amd64 (not in apt's lists)")
    folder = os.path.join(BUILD, "kernels", series)
    fresh = folder + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    # apt lowers itself to a user who may not write in our folders; --print-uris would not check
    command(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", names[-1]], cwd=fresh,
            timeout=300)
    (package,) = glob.glob(os.path.join(fresh, "*.deb"))
    command(["dpkg-deb", "-x", package, fresh])
    os.unlink(package)
    (kernel,) = kernels_below(fresh, series)
    command(["depmod", "-b", fresh, kernel.release])
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(fresh, folder)
    return kernels_below(folder, series)[-1]


def find(series):
    for root in (os.path.join(BUILD, "kernels", series), "/"):
        found = kernels_below(root, series)
        if found:
            return found[-1]
    return downloaded(series)


def driver_files(kernel):
    """Files of DRIVERS and what they need, in the order to load them. A driver that is
    built into the kernel has none; one that this kernel lacks is left to init to miss."""
    root = kernel.modules[:kernel.modules.index("/lib/modules/")] or "/"
    root = root[:-len("/usr")] if root.endswith("/usr") else root
    ordered = []
    for driver in DRIVERS:
        shown = subprocess.run(["modprobe", "-d", root, "-S", kernel.release, "--show-depends", driver],
                               capture_output=True, text=True)
        for line in shown.stdout.splitlines():
            kind, _, path = line.partition(" ")
            if kind == "insmod" and path.split()[0] not in ordered:
                ordered.append(path.split()[0])
    return ordered


def pack_driver(path, folder):
    name, ext = os.path.splitext(os.path.basename(path))
    if ext not in UNPACK:
        shutil.copy(path, folder)
        return name + ext
    with open(os.path.join(folder, name), "wb") as f:
        f.write(command([*UNPACK[ext], path]))
    return name


def initramfs(kernel, place, job):
    """The archive of init, a static busybox, the drivers and the text @job, in folder @place."""
    busybox = shutil.which("busybox") or "/bin/busybox"
    root = os.path.join(place, "initramfs")
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "drivers", "proc", "sys", "dev"):
        os.makedirs(os.path.join(root, name))
    shutil.copy(busybox, os.path.join(root, "bin/busybox"))
    shutil.copy(os.path.join(REPO, "tests/vm/init"), os.path.join(root, "init"))
    drivers = os.path.join(root, "drivers")
    names = [pack_driver(path, drivers) for path in driver_files(kernel)]
    with open(os.path.join(drivers, "order"), "w", encoding="ascii") as f:
        f.writelines(name + "\n" for name in names)
    with open(os.path.join(root, "job"), "w", encoding="utf-8") as f:
        f.write(job)
    files = command(["find", "."], cwd=root)
    archive = os.path.join(place, "initramfs.cpio")
    with open(archive, "wb") as f:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], input=files, stdout=f,
                       cwd=root, check=True)
    shutil.rmtree(root)
    return archive
