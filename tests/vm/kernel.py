"""Kernels for the guests, and the initramfs that starts them.

A kernel comes from a Debian package: the one that is installed, else one that is
downloaded and unpacked below build/vm/kernels. Nothing is installed on the host.
"""

import glob
import gzip
import lzma
import os
import re
import shutil
import subprocess

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(REPO, "build/vm")
# What init needs before it has a root: the host's files, the tmpfs above, the way out.
DRIVERS = ("virtio_pci", "virtiofs", "9p", "9pnet_virtio", "overlay", "virtio_console")
# The one for clouds is half the size and has no 9p.
FLAVOURS = {"virtiofs": "cloud-amd64", "9p": "amd64"}
DOWNLOAD_SECONDS = 300


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
    except subprocess.TimeoutExpired:
        raise Missing(f"an answer of '{' '.join(argv[:3])}' in time") from None
    if ran.returncode != 0:
        said = ran.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise Missing(f"'{' '.join(argv[:3])}' failed: {said}")
    return ran.stdout


def version_key(release):
    return [int(n) for n in re.findall(r"\d+", release)]


def release_of(series, flavour):
    """A pattern: 6.1.0-57-cloud-amd64, 6.12.117+deb12-cloud-amd64."""
    return rf"{re.escape(series)}\.[0-9][^-]*(-[0-9]+)?-{flavour}"


def kernels_below(root, series, flavour):
    """Kernels unpacked or installed below @root of that kind, the newest last."""
    fitting = re.compile(release_of(series, flavour))
    found = []
    for image in glob.glob(os.path.join(root, "boot/vmlinuz-*")):
        release = os.path.basename(image)[len("vmlinuz-"):]
        for lib in ("lib", "usr/lib"):
            modules = os.path.join(root, lib, "modules", release)
            if fitting.fullmatch(release) and os.path.isdir(modules):
                found.append(Kernel(release, image, modules))
                break
    return sorted(found, key=lambda k: version_key(k.release))


def packages_of(series, flavour):
    """Names of signed kernel packages of that kind that apt knows, the newest last."""
    names = command(["apt-cache", "pkgnames", f"linux-image-{series}"]).decode().split()
    fitting = re.compile("linux-image-" + release_of(series, flavour))
    return sorted((n for n in names if fitting.fullmatch(n)), key=version_key)


def unpacked(package, folder):
    """The newest version of a package that apt knows, unpacked as @folder. Its scripts do
    not run, so nothing of it is installed."""
    fresh = folder + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    command(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package], cwd=fresh,
            timeout=DOWNLOAD_SECONDS)
    (file,) = glob.glob(os.path.join(fresh, "*.deb"))
    command(["dpkg-deb", "-x", file, fresh])
    os.unlink(file)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(fresh, folder)
    return folder


def downloaded(series, flavour, folder):
    names = packages_of(series, flavour)
    if not names:
        raise Missing(f"a package linux-image-{series}.*-{flavour} (not in apt's lists)")
    unpacked(names[-1], folder)
    found = kernels_below(folder, series, flavour)
    if not found:
        raise Missing(f"a kernel and its modules in {names[-1]}")
    command(["depmod", "-b", folder, found[-1].release])
    return found[-1]


def find(series, share):
    """A kernel of @series ("6.1") that can mount a @share ("virtiofs", "9p")."""
    flavour = FLAVOURS[share]
    folder = os.path.join(BUILD, "kernels", f"{series}-{flavour}")
    for root in (folder, "/"):
        found = kernels_below(root, series, flavour)
        if found:
            return found[-1]
    return downloaded(series, flavour, folder)


def driver_files(kernel):
    """Files of DRIVERS and what they need, in the order to load them. A driver that is
    built into the kernel has none; one that this kernel lacks is left to init to miss."""
    root = re.sub(r"(/usr)?/lib/modules/.*", "", kernel.modules) or "/"
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
    """The driver as the guest's insmod takes it: not compressed. Its name there."""
    name, ext = os.path.splitext(os.path.basename(path))
    if ext == ".ko":
        shutil.copy(path, folder)
        return name + ext
    with open(os.path.join(folder, name), "wb") as f:
        if ext == ".zst":
            f.write(command(["zstd", "-dqc", path]))
        else:
            with (lzma if ext == ".xz" else gzip).open(path) as packed:
                f.write(packed.read())
    return name


def is_static(path):
    """A program that names no loader: nothing else need be there to run it."""
    if not path or not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as f:
        return b"/ld-linux" not in f.read(4096)


def static_busybox():
    folder = os.path.join(BUILD, "busybox")
    for path in (shutil.which("busybox"), os.path.join(folder, "bin/busybox"),
                 os.path.join(folder, "usr/bin/busybox")):
        if is_static(path):
            return path
    unpacked("busybox-static", folder)
    for path in glob.glob(os.path.join(folder, "**/busybox"), recursive=True):
        if is_static(path):
            return path
    raise Missing("a static busybox (the package busybox-static)")


def initramfs(kernel, place, job):
    """The archive of init, a static busybox, the drivers and the text @job, in folder @place."""
    root = os.path.join(place, "initramfs")
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "drivers", "proc", "sys", "dev"):
        os.makedirs(os.path.join(root, name))
    shutil.copy(static_busybox(), os.path.join(root, "bin/busybox"))
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
