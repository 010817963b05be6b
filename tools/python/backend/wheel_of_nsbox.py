"""PEP 517 and PEP 660 backend: a wheel is a zip of the package, made here without setuptools.

When the checkout around it is built, its programs go into nsbox/_bin and the wheel is for this
machine's kind; else it is for any, and the command must be on PATH. Runs in pip's build process,
its working directory is that of pyproject.toml. The same inputs give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import sysconfig
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PROGRAMS = ("nsbox", "nsbox-egress", "nsbox-policyc", "nsbox-scope", "nsbox-veth")
# How frameworks find an adapter that nobody imported; as in pyproject.toml.
ENTRY_POINTS = b"[inspect_ai]\nnsbox = nsbox.inspect\n"
_EPOCH = (2024, 1, 1, 0, 0, 0)      # zip has no date before 1980; any fixed one will do


def _version() -> str:
    text = (HERE / "nsbox" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.M)
    if found is None:
        raise RuntimeError("nsbox/__init__.py has no __version__")
    return found[1]


def _sources() -> dict[str, bytes]:
    """Files of the package: name in the wheel -> bytes."""
    return {str(path.relative_to(HERE)): path.read_bytes()
            for path in sorted((HERE / "nsbox").rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts and "_bin" not in path.parts}


def _programs() -> dict[str, bytes]:
    """The built programs, all or (when the command is missing) none of them."""
    place = Path(os.environ.get("NSBOX_BUILD_BIN") or HERE.parents[1] / "build" / "bin")
    if not (place / "nsbox").is_file():
        place = HERE / "nsbox" / "_bin"     # an unpacked source archive that has them
        if not (place / "nsbox").is_file():
            return {}
    return {f"nsbox/_bin/{name}": (place / name).read_bytes()
            for name in PROGRAMS if (place / name).is_file()}


def _tag(native: bool) -> str:
    if not native:
        return "py3-none-any"
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def _metadata() -> bytes:
    readme = HERE / "README.md"
    text = readme.read_text("utf-8") if readme.is_file() else ""
    return ("Metadata-Version: 2.1\nName: nsbox\n"
            f"Version: {_version()}\n"
            "Summary: Runs code that nobody has reviewed in a box of its own, on your own "
            "Linux machine\nLicense: Apache-2.0\nRequires-Python: >=3.10\n"
            f"Description-Content-Type: text/markdown\n\n{text}").encode("utf-8")


def _info() -> str:
    return f"nsbox-{_version()}.dist-info"


def _record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
    return f"{name},sha256={digest},{len(data)}\n"


def _write_wheel(folder: str, files: dict[str, bytes], native: bool) -> str:
    info, tag = _info(), _tag(native)
    files = dict(files)
    files[f"{info}/METADATA"] = _metadata()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: wheel_of_nsbox\n"
                              f"Root-Is-Purelib: {'false' if native else 'true'}\n"
                              f"Tag: {tag}\n").encode("ascii")
    files[f"{info}/entry_points.txt"] = ENTRY_POINTS
    record = "".join(_record_line(name, data) for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode("utf-8")
    wheel = f"nsbox-{_version()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            mode = 0o755 if name.startswith("nsbox/_bin/") else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
    return wheel


def build_wheel(wheel_directory: str, config_settings: object = None,
                metadata_directory: object = None) -> str:
    programs = _programs()
    return _write_wheel(wheel_directory, {**_sources(), **programs}, bool(programs))


def build_editable(wheel_directory: str, config_settings: object = None,
                   metadata_directory: object = None) -> str:
    return _write_wheel(wheel_directory, {"nsbox.pth": f"{HERE}\n".encode("utf-8")}, False)


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    base = f"nsbox-{_version()}"
    files = _sources()
    for name in ("pyproject.toml", "README.md", "backend/wheel_of_nsbox.py"):
        if (HERE / name).is_file():
            files[name] = (HERE / name).read_bytes()
    files["PKG-INFO"] = _metadata()
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as out:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mode = len(data), 0o644
            out.addfile(entry, io.BytesIO(data))
    return base + ".tar.gz"


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel
