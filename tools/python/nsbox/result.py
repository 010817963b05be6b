"""The record `nsbox.result/1` as dataclasses.

Fields have the names of the record. What nobody knows is None, never a guess. Fields that a
newer nsbox adds are in `Result.record`, which is the record itself.
"""

from __future__ import annotations

import base64
import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

_INLINE_BYTES = 1 << 20     # a picture of at most this many bytes is shown in a notebook


@dataclass(frozen=True)
class Usage:
    """What the run used: milliseconds and bytes; None where the kernel does not count it."""

    wall_ms: float | None = None
    user_ms: float | None = None
    system_ms: float | None = None
    memory_peak_bytes: int | None = None
    pids_peak: int | None = None
    io_read_bytes: int | None = None
    io_written_bytes: int | None = None


@dataclass(frozen=True)
class Denial:
    """Something that was refused: the layer, what it was, the rule, and what would allow it."""

    layer: str
    what: str
    rule: str | None = None
    allow: str | None = None
    count: int | None = None


@dataclass(frozen=True)
class Artifact:
    """A file that the run made. `path` is relative to the work folder, `host_path` where it is
    now (None: it was not exported), `size_bytes` in bytes, `sha256` in hex."""

    path: str
    host_path: Path | None = None
    size_bytes: int | None = None
    content_type: str | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class ImportedModule:
    """One import statement: module, names (of `from`), line (from 1), level (dots; 0: absolute)."""

    module: str
    names: tuple[str, ...] = ()
    line: int | None = None
    level: int = 0


@dataclass(frozen=True)
class SyntaxProblem:
    """Why the source does not parse; line and column from 1, None where there is none."""

    type: str
    message: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    text: str | None = None


@dataclass(frozen=True)
class Analysis:
    """What the static tier found. `ast` is JSON, None when there is none or it was too large."""

    language: str
    ok: bool
    error: SyntaxProblem | None = None
    imports: tuple[ImportedModule, ...] = ()
    unauthorized: tuple[str, ...] = ()
    ast: Any = None
    ast_truncated: bool = False


@dataclass(frozen=True)
class Package:
    """One package of the layer. `hash` is as its installer writes it ("sha256:<hex>" by pip,
    "sha512-<base64>" by npm), None where it is not known."""

    name: str
    version: str
    hash: str | None = None


@dataclass(frozen=True)
class Packages:
    """The layer that the run had: who installed it, its id in the cache, what was resolved."""

    installer: str
    layer: str
    resolved: tuple[Package, ...] = ()


def _pick(cls: type, record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of @cls that @record has."""
    return {k: v for k, v in record.items() if k in getattr(cls, "__dataclass_fields__")}


def _analysis(record: Mapping[str, Any] | None) -> Analysis | None:
    if record is None:
        return None
    known = _pick(Analysis, record)
    if known.get("error") is not None:
        known["error"] = SyntaxProblem(**_pick(SyntaxProblem, known["error"]))
    known["imports"] = tuple(
        ImportedModule(**{**_pick(ImportedModule, i), "names": tuple(i.get("names") or ())})
        for i in known.get("imports") or ())
    known["unauthorized"] = tuple(known.get("unauthorized") or ())
    return Analysis(**known)


def _packages(record: Mapping[str, Any] | None) -> Packages | None:
    if record is None:
        return None
    known = _pick(Packages, record)
    known["resolved"] = tuple(Package(**_pick(Package, p)) for p in known.get("resolved") or ())
    return Packages(**known)


def _stream(record: Mapping[str, Any], name: str) -> bytes:
    text = record.get(name) or ""
    if record.get(name + "_encoding") == "base64":
        return base64.b64decode(text)
    return str(text).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class Result:
    """How one run ended.

    `verdict` is one word: exited, signaled, timed_out, out_of_memory, pids_limit, disk_limit,
    output_limit, denied, skipped, setup_failed. `stdout` and `stderr` are text, with U+FFFD for
    what is not UTF-8; `stdout_raw` and `stderr_raw` are the bytes. `*_bytes` count what the
    program wrote, `*_truncated` says that less was kept. `enforced` has the strength (kernel,
    userspace, none) of each protection, `limits` the numbers that held.
    """

    tier: str
    verdict: str
    success: bool
    exit_code: int | None = None
    signal: int | str | None = None
    reason: str | None = None
    stdout: str = ""
    stderr: str = ""
    stdout_raw: bytes = field(default=b"", repr=False)
    stderr_raw: bytes = field(default=b"", repr=False)
    stdout_bytes: int | None = 0
    stderr_bytes: int | None = 0
    stdout_truncated: bool | None = False
    stderr_truncated: bool | None = False
    artifacts: tuple[Artifact, ...] = ()
    usage: Usage = Usage()
    enforced: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: Mapping[str, Any] = field(default_factory=dict, repr=False)
    denials: tuple[Denial, ...] = ()
    network: Any = field(default=None, repr=False)
    working_directory: str | None = None
    notes: tuple[str, ...] = ()
    setup_ms: float | None = None
    orphans_killed: bool = False
    analysis: Analysis | None = None
    packages: Packages | None = None
    record: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Result":
        """The result of a nsbox.result/1 object. Raises ValueError for another one."""
        if record.get("schema") != "nsbox.result/1":
            raise ValueError(f"not a nsbox.result/1 record: {record.get('schema')!r}")
        known = _pick(cls, record)
        for name in ("stdout", "stderr"):
            raw = _stream(record, name)
            known[name + "_raw"] = raw
            known[name] = raw.decode("utf-8", "replace")
        known["artifacts"] = tuple(
            Artifact(**{**_pick(Artifact, a),
                        "host_path": Path(a["host_path"]) if a.get("host_path") else None})
            for a in record.get("artifacts") or ())
        known["usage"] = Usage(**_pick(Usage, record.get("usage") or {}))
        known["denials"] = tuple(Denial(**_pick(Denial, d)) for d in record.get("denials") or ())
        known["notes"] = tuple(record.get("notes") or ())
        known["analysis"] = _analysis(record.get("analysis"))
        known["packages"] = _packages(record.get("packages"))
        return cls(**known, record=record)

    @property
    def timed_out(self) -> bool:
        """The wall clock of the policy ended the run."""
        return self.verdict == "timed_out"

    @property
    def skipped(self) -> bool:
        """The program was refused before it ran; `reason` says why."""
        return self.verdict == "skipped"

    @property
    def returncode(self) -> int | None:
        """As subprocess has it: the exit code, or minus the number of the signal."""
        if self.exit_code is not None and self.verdict == "exited":
            return self.exit_code
        if isinstance(self.signal, int):
            return -self.signal
        return self.exit_code

    def _repr_html_(self) -> str:
        """For notebooks: verdict, output, pictures, refusals. Everything is escaped."""
        return _result_html(self)


_PRE = "<pre style='margin:0;white-space:pre-wrap;text-align:left'>"


def _row(title: str, cell: str) -> str:
    return (f"<tr><th style='text-align:left;vertical-align:top'>{html.escape(title)}</th>"
            f"<td style='text-align:left'>{cell}</td></tr>")


def _text(text: str, truncated: bool | None) -> str:
    cut = "<i>(truncated)</i>" if truncated else ""
    return f"{_PRE}{html.escape(text)}</pre>{cut}"


def _artifact_html(artifact: Artifact) -> str:
    size = "" if artifact.size_bytes is None else f" ({artifact.size_bytes} bytes)"
    shown = html.escape(artifact.path) + size
    place = artifact.host_path
    if artifact.content_type == "image/png" and place is not None:
        try:
            data = place.read_bytes() if (artifact.size_bytes or 0) <= _INLINE_BYTES else b""
        except OSError:
            data = b""      # moved away meanwhile: its name is still shown
        if data.startswith(b"\x89PNG"):
            shown += ("<br><img src='data:image/png;base64,"
                      f"{base64.b64encode(data).decode('ascii')}'>")
    return shown


def _result_html(result: Result) -> str:
    ended = result.verdict
    if result.exit_code is not None:
        ended += f", exit code {result.exit_code}"
    rows = [_row("verdict", html.escape(ended))]
    if result.reason:
        rows.append(_row("reason", html.escape(result.reason)))
    for name in ("stdout", "stderr"):
        if getattr(result, name):
            rows.append(_row(name, _text(getattr(result, name),
                                         getattr(result, name + "_truncated"))))
    for artifact in result.artifacts:
        rows.append(_row("artifact", _artifact_html(artifact)))
    for denial in result.denials:
        remedy = f" (allowed by {denial.allow})" if denial.allow else ""
        rows.append(_row("denied", html.escape(f"{denial.layer}: {denial.what}{remedy}")))
    if result.usage.wall_ms is not None:
        rows.append(_row("time", f"{result.usage.wall_ms:.1f} ms"))
    return f"<table class='nsbox-result'>{''.join(rows)}</table>"
