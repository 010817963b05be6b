#!/usr/bin/env python3
# as: root user
"""Installing the package: the wheel that the backend makes, by hand and by pip, without network."""

import hashlib
import importlib.util
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
PACKAGE = os.path.join(tap_unittest.REPO, "tools", "python")
BIN = os.path.dirname(os.environ["NSBOX_BIN"])
spec = importlib.util.spec_from_file_location(
    "wheel_of_nsbox", os.path.join(PACKAGE, "backend", "wheel_of_nsbox.py"))
backend = importlib.util.module_from_spec(spec)
spec.loader.exec_module(backend)
WITHOUT = {k: v for k, v in os.environ.items() if k not in ("NSBOX_BIN", "PYTHONPATH")}


def folder():
    return tempfile.TemporaryDirectory(dir=os.environ.get("NSBOX_SCRATCH"))


class Package(unittest.TestCase):
    def test_version(self):
        """the version is that of the command"""
        ran = subprocess.run([os.environ["NSBOX_BIN"], "version"], capture_output=True, text=True,
                             timeout=60, check=True)
        self.assertIn(backend._version(), ran.stdout)

    def build(self, place, bins):
        os.environ["NSBOX_BUILD_BIN"] = bins
        try:
            return os.path.join(place, backend.build_wheel(place))
        finally:
            del os.environ["NSBOX_BUILD_BIN"]

    def test_wheel(self):
        """a wheel of a built checkout has the programs, executable, and a true RECORD"""
        with folder() as place:
            wheel = self.build(place, BIN)
            self.assertRegex(os.path.basename(wheel), r"^nsbox-[0-9.]+-py3-none-linux_\w+\.whl$")
            with zipfile.ZipFile(wheel) as got:
                names = set(got.namelist())
                self.assertTrue({"nsbox/__init__.py", "nsbox/py.typed", "nsbox/mellea/tool.py",
                                 "nsbox/_bin/nsbox", "nsbox/_bin/nsbox-egress"} <= names, names)
                self.assertFalse([n for n in names if "__pycache__" in n])
                mode = got.getinfo("nsbox/_bin/nsbox").external_attr >> 16
                self.assertEqual(mode, stat.S_IFREG | 0o755)
                record = next(n for n in names if n.endswith("/RECORD"))
                listed = {line.rsplit(",", 2)[0]: line.rsplit(",", 2)[1] for line in
                          got.read(record).decode().splitlines()}
                self.assertEqual(set(listed), names)
                for name, digest in listed.items():
                    if digest:
                        want = hashlib.sha256(got.read(name)).digest()
                        self.assertEqual(backend.base64.urlsafe_b64decode(
                            digest.removeprefix("sha256=") + "="), want, name)

    def test_same_bytes(self):
        """the same inputs make the same wheel, bit for bit"""
        with folder() as one, folder() as two:
            with open(self.build(one, BIN), "rb") as a, open(self.build(two, BIN), "rb") as b:
                self.assertEqual(a.read(), b.read())

    def test_without_programs(self):
        """a wheel of a checkout that is not built is for any machine"""
        with folder() as place:
            wheel = self.build(place, "/nonexistent")
            self.assertTrue(wheel.endswith("-py3-none-any.whl"))

    def test_unpacked(self):
        """the unpacked wheel works alone: it finds the programs that it brought"""
        with folder() as place:
            with zipfile.ZipFile(self.build(place, BIN)) as got:
                got.extractall(place)
            bins = os.path.join(place, "nsbox", "_bin")
            for name in os.listdir(bins):
                os.chmod(os.path.join(bins, name), 0o755)
            ran = subprocess.run(
                [sys.executable, "-c", "import nsbox; from nsbox._binary import find_binary\n"
                 "print(find_binary()); print(nsbox.code('print(6 * 7)').stdout)"],
                env={**WITHOUT, "PYTHONPATH": place}, capture_output=True, text=True, timeout=60,
                cwd="/")
            self.assertEqual(ran.stdout, f"{os.path.realpath(bins)}/nsbox\n42\n\n", ran.stderr)

    def test_pip(self):
        """pip installs it from the checkout without network, and once more in place"""
        with folder() as place:
            made = subprocess.run([sys.executable, "-m", "venv", place], capture_output=True,
                                  text=True, timeout=200)
            if made.returncode:
                self.skipTest("the module venv with pip")
            python = os.path.join(place, "bin", "python")
            for how in ([], ["-e"]):
                ran = subprocess.run(
                    [python, "-m", "pip", "install", "-q", "--no-index", "--force-reinstall",
                     *how, PACKAGE], capture_output=True, text=True, timeout=300,
                    env={**WITHOUT, "TMPDIR": place, "HOME": place}, cwd=place)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                ran = subprocess.run([python, "-c", "import nsbox; print(nsbox.code('print(1)')"
                                      ".stdout, nsbox.__file__)"], env=WITHOUT, cwd=place,
                                     capture_output=True, text=True, timeout=60)
                self.assertTrue(re.match(r"1\n ", ran.stdout), ran.stderr)
                self.assertEqual(PACKAGE in ran.stdout, bool(how))

    def test_sdist(self):
        """a source archive has what makes a wheel"""
        import tarfile
        with folder() as place:
            with tarfile.open(os.path.join(place, backend.build_sdist(place))) as got:
                names = {n.split("/", 1)[1] for n in got.getnames()}
            self.assertTrue({"pyproject.toml", "PKG-INFO", "backend/wheel_of_nsbox.py",
                             "nsbox/__init__.py"} <= names)


if __name__ == "__main__":
    tap_unittest.main()
