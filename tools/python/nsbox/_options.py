"""Options of a call -> fields of a request.

Three kinds: what belongs to the run itself (cwd, stdin, ...), the flags of the command under
their names (`memory`, `allow_out`, ...), and every policy key with underscores for its dots
(`limits_memory`). An unknown name is an error with the nearest one.
"""

from __future__ import annotations

import base64
import difflib
import os
from typing import Any, Iterable, Mapping

from .errors import UsageError

# Flags of the command, as they are called there, and the policy key behind each.
FLAGS: dict[str, str] = {
    "ro": "fs.read", "rw": "fs.write", "tmpfs": "fs.tmpfs",
    "net": "net.mode", "net_path": "net.path", "compat": "net.compat",
    "allow_out": "net.allow_out", "deny_out": "net.deny_out",
    "allow_private": "net.allow_private", "publish": "net.publish",
    "timeout": "limits.timeout", "cpu_time": "limits.cpu_time", "cpus": "limits.cpus",
    "memory": "limits.memory", "disk": "limits.disk", "pids": "limits.pids",
    "output_limit": "limits.output", "allow_imports": "imports.allow",
    "allow_import": "imports.allow", "with_inline": "packages.inline", "require": "enforce.floor",
    "allow_degraded": "enforce.degraded", "subprocesses": "process.subprocesses",
    "pass_env": "env.pass", "inherit_env": "env.inherit",
}

# Keys of a policy; `nsbox policy schema` is the authority, a test compares.
KEYS: tuple[str, ...] = (
    "extends", "fs.read", "fs.write", "fs.tmpfs", "fs.hidden", "fs.protect", "fs.protect_home",
    "net.mode", "net.precedence", "net.path", "net.compat", "net.allow_out", "net.deny_out",
    "net.allow_private", "net.connections", "net.names", "net.bytes", "net.host_bytes",
    "net.proxy", "net.resolvers", "net.publish", "process.subprocesses", "env.set", "env.pass",
    "env.inherit", "limits.timeout", "limits.grace", "limits.cpu_time", "limits.cpus",
    "limits.memory", "limits.swap", "limits.memory_high", "limits.oom", "limits.disk",
    "limits.tmp", "limits.shm", "limits.inodes", "limits.disk_action", "limits.io_weight",
    "limits.pids", "limits.files", "limits.file_size", "limits.stdout", "limits.stderr",
    "limits.output", "limits.output_action", "imports.allow", "imports.mode", "packages.install",
    "packages.list", "packages.inline", "packages.installer", "packages.max_bytes", "artifacts.collect", "artifacts.paths",
    "artifacts.max_count", "artifacts.max_bytes", "artifacts.max_depth", "syscalls.level", "syscalls.allow",
    "syscalls.deny", "devices.allow", "enforce.floor", "enforce.degraded", "enforce.optional",
    "enforce.cgroup", "isolation.floor", "observe.listed",
)
_BY_OPTION: dict[str, str] = {**{k.replace(".", "_"): k for k in KEYS}, **FLAGS}
_LISTS = {"fs.read", "fs.write", "fs.tmpfs", "fs.hidden", "fs.protect", "fs.protect_home",
          "net.allow_out", "net.deny_out", "net.allow_private", "net.resolvers", "net.publish",
          "env.set", "env.pass", "imports.allow", "packages.list", "artifacts.paths",
          "syscalls.allow", "syscalls.deny", "devices.allow", "enforce.optional"}
_TIMES = {"limits.timeout", "limits.grace", "limits.cpu_time"}

# Fields of the request itself: option -> (field of the protocol, types it may have).
_RUN: dict[str, tuple[str, tuple[type, ...]]] = {
    "cwd": ("cwd", (str, os.PathLike)), "artifacts": ("artifacts_dir", (str, os.PathLike)),
    "interpreter": ("interpreter", (str, os.PathLike)),
    "project": ("project", (str, os.PathLike)), "profile": ("profile", (str,)),
    "policy": ("policy", (dict,)), "tier": ("tier", (str,)), "name": ("name", (str,)),
}
_OTHER = ("stdin", "env", "set", "packages")


def option_names() -> list[str]:
    """Every name that a call takes."""
    return sorted({*_RUN, *_OTHER, *_BY_OPTION})


def _unknown(name: str) -> UsageError:
    near = difflib.get_close_matches(name, option_names(), 1)
    return UsageError(f"unknown option {name!r}",
                      hint=f"did you mean {near[0]!r}?" if near else
                      "options have the names of flags or of policy keys")


def _value_text(key: str, value: Any) -> str:
    """One setting as the command would be given it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)) and key in _TIMES:
        if not 0 <= value < 1e10:
            raise UsageError(f"{key}: {value!r} is no number of seconds")
        return f"{round(value * 1e6)}us"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise UsageError(f"{key}: a value of type {type(value).__name__} cannot be a setting")


def _setting(key: str, value: Any) -> str | list[str]:
    if key not in _LISTS:
        return _value_text(key, value)
    if isinstance(value, (str, os.PathLike)):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise UsageError(f"{key}: wants a list of texts, not {type(value).__name__}")
    return [_value_text(key, v) for v in value]


def data_field(data: Any, what: str) -> Any:
    """Text or bytes as the protocol has them: text, or {"base64": ...}."""
    if isinstance(data, str):
        return data
    if isinstance(data, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(data).decode("ascii")}
    raise UsageError(f"{what} wants text or bytes, not {type(data).__name__}")


def _env(env: Any) -> dict[str, str]:
    if not isinstance(env, Mapping) or not all(
            isinstance(k, str) and isinstance(v, str) for k, v in env.items()):
        raise UsageError("env wants a dict of texts", hint='env={"NAME": "value"}')
    return dict(env)


def _run_field(name: str, given: Any) -> Any:
    field, types = _RUN[name]
    value: Any = given
    if not isinstance(given, types):
        raise UsageError(f"{name} wants {' or '.join(t.__name__ for t in types)}, "
                         f"not {type(value).__name__}")
    # The child of a client does not follow the caller's os.chdir().
    if field in ("artifacts_dir", "project"):
        return os.path.abspath(os.fspath(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def request_fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run, code, check or open request. Raises UsageError.

    None for an option means that it is not set. `allow_imports=[]` is set: nothing may be
    imported then.
    """
    fields: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for name, value in options.items():
        if name not in _RUN and name not in _OTHER and name not in _BY_OPTION:
            raise _unknown(name)
        if value is None:
            continue
        if name in _RUN:
            fields[_RUN[name][0]] = _run_field(name, value)
        elif name == "stdin":
            fields["stdin"] = data_field(value, "stdin")
        elif name == "env":
            fields["env"] = _env(value)
        elif name == "packages":
            fields["packages"] = _setting("packages.list", value)
        elif name == "set":
            for key, one in dict(value).items():
                settings[key] = _setting(key, one)
        else:
            settings[_BY_OPTION[name]] = _setting(_BY_OPTION[name], value)
    if settings:
        fields["set"] = settings
    return fields
