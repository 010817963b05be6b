"""CapabilityPolicy, the tiers' defaults, what each tier can do, and the policy keys behind it.

Must: give every field of a policy that `local` declares a policy key, or refuse the policy.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

ExecutionTier = Literal["static", "local_unsafe", "local", "docker_unsafe", "docker"]
TIERS = ("static", "local_unsafe", "local", "docker_unsafe", "docker")
WORK_FOLDER = PurePosixPath("/workspace")
TIMEOUT = 30        # seconds, of a local tier without a policy

# mellea has no limit on output where the policy says None; a caller's memory has one.
UNLIMITED_OUTPUT = 16 << 20

try:
    from mellea.stdlib.tools.execution_policy import CapabilityPolicy as _Base
except ImportError:

    @dataclass
    class _Base:  # type: ignore[no-redef]
        filesystem_read_roots: list[Path] | None = None
        filesystem_write_roots: list[Path] | None = None
        network_access: bool = False
        package_installation: bool = False
        subprocess_execution: bool = False
        env_var_access: bool = True
        timeout: int = 30
        stdout_max_bytes: int | None = None
        stderr_max_bytes: int | None = None
        artifact_export_paths: list[Path] = field(default_factory=list)
        packages: list[str] = field(default_factory=list)


@dataclass
class CapabilityPolicy(_Base):
    """What code may do. On the tier `local` every field is enforced, by a box.

    filesystem_read_roots: folders or files of the host that it may read, on top of the system's
        own; None or []: none.
    filesystem_write_roots: the same for writing; None: the working directory alone, []: not
        even that.
    network_access: any public address (never private ones); False: none.
    package_installation: packages may be installed for it; `packages` says which, and says this
        as well.
    subprocess_execution: it may start other processes.
    env_var_access: it sees the caller's variables but those with secret-looking names.
    timeout: wall clock in seconds.
    stdout_max_bytes, stderr_max_bytes: what is kept of the output; None: 16 MiB.
    artifact_export_paths: files or folders of the working directory that come out; []: all.
    packages: installed before the run.
    """

    ENFORCED_filesystem_read_roots: ClassVar[bool] = True
    ENFORCED_filesystem_write_roots: ClassVar[bool] = True
    ENFORCED_network_access: ClassVar[bool] = True
    ENFORCED_package_installation: ClassVar[bool] = True
    ENFORCED_subprocess_execution: ClassVar[bool] = True
    ENFORCED_env_var_access: ClassVar[bool] = True
    ENFORCED_timeout: ClassVar[bool] = True
    ENFORCED_stdout_max_bytes: ClassVar[bool] = True
    ENFORCED_stderr_max_bytes: ClassVar[bool] = True
    ENFORCED_artifact_export_paths: ClassVar[bool] = True
    ENFORCED_packages: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Nothing to warn of: mellea's class warns here that roots are not enforced."""

    def _flags(self, value: bool) -> list[str]:
        names: dict[str, bool] = {}
        for cls in reversed(type(self).__mro__):
            names.update({k: v for k, v in vars(cls).items()
                          if k.startswith("ENFORCED_") and isinstance(v, bool)})
        return [k[len("ENFORCED_"):] for k, v in names.items() if v is value]

    def enforced_capabilities(self) -> list[str]:
        """Names of the fields that are enforced."""
        return self._flags(True)

    def unenforced_capabilities(self) -> list[str]:
        """Names of the fields that are only declared (a subclass may say so)."""
        return self._flags(False)


LOCAL_POLICY = CapabilityPolicy(subprocess_execution=True, timeout=30)
DOCKER_POLICY = CapabilityPolicy(package_installation=True, subprocess_execution=True, timeout=60)

_CAPABILITIES = ("execute_code", "timeout_enforcement", "import_allowlist", "policy_applied",
                 "copy_in", "copy_out", "package_installation", "docker_isolation")


def _row(bits: str) -> dict[str, bool]:
    return {name: bit == "T" for name, bit in zip(_CAPABILITIES, bits)}


COMPATIBILITY_MATRIX: dict[str, dict[str, bool]] = {
    "static": _row("FFTFFFFF"),
    "local_unsafe": _row("TTTFFFTF"),
    "local": _row("TTTTTTTF"),      # mellea's has no copying here
    "docker_unsafe": _row("TTTFTTTT"),
    "docker": _row("TTTTTTTT"),
}


def restrictions(policy: Any) -> list[str]:
    """The boolean fields of @policy that forbid something, as NAME=False."""
    return [f"{name}=False" for name in ("network_access", "package_installation",
                                         "subprocess_execution", "env_var_access")
            if not getattr(policy, name)]


def with_packages(policy: Any, packages: list[str]) -> Any:
    """@policy with @packages behind its own, each once, and installing allowed."""
    if policy is None:
        return CapabilityPolicy(package_installation=True, packages=list(packages))
    merged = list(dict.fromkeys([*policy.packages, *packages]))
    known = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy) if f.init}
    if type(policy) is _Base:   # its constructor would warn a second time
        return CapabilityPolicy(**{**known, "package_installation": True, "packages": merged})
    return type(policy)(**{**known, "package_installation": True, "packages": merged})


def check_packages(packages: list[str]) -> None:
    """ValueError for what is no requirement. Full parsing is the library's, before a run."""
    for spec in packages:
        if not isinstance(spec, str) or not spec.strip():
            raise ValueError(f"package {spec!r}: specifiers must be non-empty strings")
        if spec.lstrip().startswith("-"):
            raise ValueError(f"package {spec!r}: flag-style arguments are not allowed")
        if any(ord(c) < 32 or ord(c) == 127 for c in spec):
            raise ValueError(f"package {spec!r}: a specifier is one line without control "
                             "characters")


def _inside(path: Path, root: Path) -> bool:
    return path == root or root in path.parents


def export_paths(policy: Any, working_directory: str | None) -> list[str]:
    """artifact_export_paths relative to the working directory. ValueError for others: nothing
    else of a box comes out."""
    base = Path(working_directory) if working_directory else Path(WORK_FOLDER)
    found = []
    for path in map(Path, getattr(policy, "artifact_export_paths", ())):
        if ".." in path.parts:
            raise ValueError(f"artifact_export_paths: {path} has '..'")
        if path.is_absolute() and not _inside(path, base):
            raise ValueError(f"artifact_export_paths: {path} is outside of {base}, where the code "
                             "works; use a path below it, or a relative one")
        found.append(str(path.relative_to(base)) if path.is_absolute() else str(path))
    return found


def may_write(policy: Any, directory: str) -> bool:
    """May the working directory be written?"""
    roots = policy.filesystem_write_roots if policy is not None else None
    if roots is None:
        return True
    return any(_inside(Path(directory).resolve(), Path(r).resolve()) for r in roots)


def kept_bytes(limit: int | None) -> int:
    """How much of a stream the box must keep, so that its first @limit bytes are all there
    after leading blanks went: it keeps half from the front and half from the end."""
    if limit is None:
        return UNLIMITED_OUTPUT
    return min(max(1 << 20, 4 * limit), 2 * UNLIMITED_OUTPUT)


def local_options(policy: Any, timeout: float) -> dict[str, Any]:
    """The options of a run for every field of @policy but its packages and export paths."""
    options: dict[str, Any] = {
        "timeout": timeout,
        "limits_stdout": kept_bytes(policy.stdout_max_bytes),
        "limits_stderr": kept_bytes(policy.stderr_max_bytes),
        "net": "open" if policy.network_access else "disabled",
        "subprocesses": bool(policy.subprocess_execution),
        "inherit_env": bool(policy.env_var_access),
        "ro": [str(Path(p).absolute()) for p in policy.filesystem_read_roots or ()],
        "rw": [str(Path(p).absolute()) for p in policy.filesystem_write_roots or ()],
    }
    return options
