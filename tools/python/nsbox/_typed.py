"""Values as typed JSON and back, on the host's side of a kernel. No pickle, in either direction.

None, True, finite floats, integers within 2**53, strings, lists and dicts with string keys are
plain JSON; everything else is {"$t": tag, "v": ...}. A dict that has a key "$t" travels as pairs,
so that nothing of a user's is taken for a tag.

What comes from a box is hostile. Must: build values of the types below and nothing else, within
the depth and size of a frame. Must not: look up, import or call anything by a name from the box;
a class of the caller's is used only when it was given in `types`.
"""

from __future__ import annotations

import base64
import builtins
import collections
import dataclasses
import datetime
import decimal
import enum
import io
import keyword
import math
import pathlib
import sys
import uuid
from typing import Any, Callable, Iterable, Mapping

from .errors import UsageError

TAG = "$t"
EXACT = 1 << 53
ROOM = 56               # levels of JSON for one value; a frame has 64
DIGITS = 40_000         # of an integer; converting takes quadratic time
_PART_DIGITS = 600      # converted at once, see _decimal()
_PART = 10 ** _PART_DIGITS
_MAX_CALLABLE = 255     # names of fields of a generated class


class Remote:
    """A value that stayed in the box: the name of its type, and its repr()."""

    def __init__(self, type: str, repr: str) -> None:
        self.type, self.repr = type, repr

    def __repr__(self) -> str:
        return self.repr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.type, self.repr))


class RemoteError(Exception):
    """An exception of the box that is no built-in one. `name` is that of its class."""

    def __init__(self, name: str, value: str) -> None:
        super().__init__(f"{name}: {value}")
        self.name, self.value = name, value


# --- to JSON -----------------------------------------------------------------
def _tagged(tag: str, value: Any) -> dict[str, Any]:
    return {TAG: tag, "v": value}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _text(text: str) -> Any:
    if _is_unicode(text):
        return str(text)
    return _tagged("str", _base64(text.encode("utf-8", "surrogatepass")))


def _integer(n: int) -> Any:
    if -EXACT <= n <= EXACT:
        return int(n)
    if n.bit_length() > DIGITS * 3:
        raise UsageError(f"an integer of {n.bit_length()} bits cannot be sent")
    return _tagged("int", _decimal(int(n)))


def _decimal(n: int) -> str:
    """str() of any size: that refuses more than 4300 digits, or what the process sets (640 at
    least), and setting it for a moment would be seen by other threads."""
    sign, n, parts = "-" if n < 0 else "", abs(n), []
    while n >= _PART:
        n, part = divmod(n, _PART)
        parts.append(str(part).zfill(_PART_DIGITS))
    return sign + str(n) + "".join(reversed(parts))


def _float(x: float) -> Any:
    if math.isnan(x):
        return _tagged("float", "nan")
    if math.isinf(x):
        return _tagged("float", "inf" if x > 0 else "-inf")
    return float(x)


def _all(values: Iterable[Any], room: int) -> list[Any]:
    return [encode(v, room - 1) for v in values]


def _pairs(value: Mapping[Any, Any], room: int) -> list[Any]:
    return [[encode(k, room - 2), encode(v, room - 2)] for k, v in value.items()]


def _dict(value: Mapping[Any, Any], room: int) -> Any:
    if all(type(k) is str and k != TAG and _is_unicode(k) for k in value):
        return {k: encode(v, room - 1) for k, v in value.items()}
    return _tagged("dict", _pairs(value, room - 1))


_EXACT_TYPES: dict[type, Callable[[Any, int], Any]] = {
    type(None): lambda v, room: None,
    bool: lambda v, room: v,
    int: lambda v, room: _integer(v),
    float: lambda v, room: _float(v),
    str: lambda v, room: _text(v),
    list: _all,
    dict: _dict,
    tuple: lambda v, room: _tagged("tuple", _all(v, room - 1)),
    set: lambda v, room: _tagged("set", _all(v, room - 1)),
    frozenset: lambda v, room: _tagged("frozenset", _all(v, room - 1)),
    bytes: lambda v, room: _tagged("bytes", _base64(v)),
    bytearray: lambda v, room: _tagged("bytearray", _base64(v)),
    complex: lambda v, room: _tagged("complex", [_float(v.real), _float(v.imag)]),
    range: lambda v, room: _tagged("range", [_integer(v.start), _integer(v.stop),
                                             _integer(v.step)]),
    datetime.datetime: lambda v, room: _tagged("datetime", v.isoformat()),
    datetime.date: lambda v, room: _tagged("date", v.isoformat()),
    datetime.time: lambda v, room: _tagged("time", v.isoformat()),
    datetime.timedelta: lambda v, room: _tagged("timedelta", [v.days, v.seconds,
                                                              v.microseconds]),
    decimal.Decimal: lambda v, room: _tagged("Decimal", str(v)),
    uuid.UUID: lambda v, room: _tagged("UUID", str(v)),
    collections.OrderedDict: lambda v, room: _tagged("OrderedDict", _pairs(v, room - 1)),
    collections.deque: lambda v, room: _tagged("deque", {"items": _all(v, room - 2),
                                                         "maxlen": v.maxlen}),
}


def _names(value: Any) -> dict[str, str]:
    return {"name": type(value).__qualname__, "module": str(type(value).__module__)}


def _own_class(value: Any, room: int) -> Any:
    """Enum, namedtuple, dataclass, exception, path; None for others."""
    if isinstance(value, enum.Enum):
        return _tagged("enum", {**_names(value), "member": str(value.name),
                                "value": encode(value.value, room - 2)})
    fields = getattr(type(value), "_fields", None)
    if isinstance(value, tuple) and isinstance(fields, tuple):
        return _tagged("namedtuple", {**_names(value), "fields": [str(f) for f in fields],
                                      "values": _all(value, room - 2)})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {f.name: encode(getattr(value, f.name), room - 3)
                for f in dataclasses.fields(value) if hasattr(value, f.name)}
        return _tagged("dataclass", {**_names(value), "fields": held})
    if isinstance(value, BaseException):
        return _tagged("exception", {**_names(value), "name": type(value).__name__,
                                     "value": _plain_text(str(value))})
    if isinstance(value, pathlib.PurePath):
        return _tagged("Path", _text(str(value)))
    return None


def _plain_text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _science(value: Any) -> Any:
    """Arrays of numpy and images of PIL, when they are loaded: without them there is none."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        if value.dtype.kind not in "biufcSUMm" or value.dtype.fields:
            return None
        return _tagged("ndarray", {"dtype": value.dtype.str, "shape": list(value.shape),
                                   "data": _base64(value.tobytes())})
    pil = sys.modules.get("PIL.Image")
    if pil is not None and isinstance(value, pil.Image):
        return _tagged("image", _base64(png_of(value)))
    return None


def png_of(image: Any) -> bytes:
    """An image of PIL as PNG."""
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
        image = image.convert("RGBA" if "A" in image.mode or "a" in image.mode else "RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def encode(value: Any, room: int = ROOM) -> Any:
    """@value as JSON. Raises UsageError for what cannot cross, and says its type."""
    if room < 0:
        raise UsageError("the value is nested too deeply, or holds itself")
    exact = _EXACT_TYPES.get(type(value))
    if exact is not None:
        return exact(value, room)
    for special in (_own_class(value, room), _science(value)):
        if special is not None:
            return special
    # A subclass without meaning of its own here crosses as what it is made of.
    kinds: tuple[Any, ...] = (int, float, str, bytes, bytearray, dict, list, tuple, set, frozenset)
    for kind in kinds:
        if isinstance(value, kind):
            return _EXACT_TYPES[kind](kind(value), room)
    if isinstance(value, Remote):
        return _tagged("repr", {"type": value.type, "repr": value.repr})
    kind_name = f"{type(value).__module__}.{type(value).__qualname__}"
    raise UsageError(f"a value of type {kind_name} cannot be sent to a box",
                     hint="send plain data, or make it a tool of the host")


# --- from JSON ---------------------------------------------------------------
def _unbase64(text: Any) -> bytes:
    return base64.b64decode(text, validate=True)


def _identifiers(names: Any) -> list[str]:
    if len(names) > _MAX_CALLABLE or not all(
            isinstance(n, str) and n.isidentifier() and not keyword.iskeyword(n)
            and not n.startswith("_") for n in names) or len(set(names)) != len(names):
        raise ValueError("names of fields that no class can have")
    return list(names)


def _class_name(v: Mapping[str, Any]) -> str:
    name = str(v["name"]).rpartition(".")[2]
    return name if name.isidentifier() and not keyword.iskeyword(name) else "Remote"


class Decoder:
    """decode() with the classes that a box may name: enums, namedtuples, dataclasses of the
    caller's, found by the name of the class and, unless that is __main__, of its module."""

    def __init__(self, types: Iterable[type] = ()) -> None:
        self._types = {t.__qualname__: t for t in types}

    def decode(self, value: Any) -> Any:
        """The value of typed JSON. Raises ValueError for what is none."""
        try:
            return self._value(value)
        except (ValueError, ImportError):
            raise
        except Exception as e:  # PIL and classes of the caller's have many kinds of their own
            raise ValueError(f"a value of the box cannot be taken over: "
                             f"{type(e).__name__}: {e}") from None

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(v) for v in value]
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {k: self._value(v) for k, v in value.items()}
        make = _MAKERS.get(value[TAG]) if isinstance(value[TAG], str) else None
        if make is None or set(value) != {TAG, "v"}:
            raise ValueError(f"a value with the tag {value[TAG]!r} cannot be taken over")
        return make(self, value["v"])

    def pairs(self, v: Any) -> dict[Any, Any]:
        return {self._value(k): self._value(x) for k, x in v}

    def known(self, v: Mapping[str, Any], base: Callable[[type], bool]) -> Any:
        found = self._types.get(v["name"])
        if found is None or not base(found):
            return None
        if v.get("module") not in ("__main__", found.__module__):
            return None
        return found

    def enum(self, v: Any) -> Any:
        kind = self.known(v, lambda t: issubclass(t, enum.Enum))
        return kind[v["member"]] if kind is not None else self._value(v["value"])

    def namedtuple(self, v: Any) -> Any:
        fields, values = tuple(_identifiers(v["fields"])), self._value(v["values"])
        kind = self.known(v, lambda t: getattr(t, "_fields", None) == fields)
        return (kind or collections.namedtuple(_class_name(v), fields))(*values)

    def dataclass(self, v: Any) -> Any:
        fields = {k: self._value(x) for k, x in v["fields"].items()}
        kind = self.known(v, dataclasses.is_dataclass)
        if kind is None:
            kind = dataclasses.make_dataclass(_class_name(v), _identifiers(list(fields)))
        return kind(**fields)

    def exception(self, v: Any) -> BaseException:
        name, text = str(v["name"]), str(v["value"])
        kind = getattr(builtins, name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(text)
            except TypeError:       # UnicodeDecodeError wants five arguments
                pass
        return RemoteError(name, text)

    def array(self, v: Any) -> Any:
        import numpy
        kind = numpy.dtype(str(v["dtype"]))
        if kind.kind not in "biufcSUMm" or kind.fields:
            raise ValueError(f"an array of {kind}")     # objects would be pointers from the box
        array = numpy.frombuffer(_unbase64(v["data"]), dtype=kind).reshape(
            [int(n) for n in v["shape"]]).copy()
        return array if v["shape"] else array[()]

    def image(self, v: Any) -> Any:
        import PIL.Image
        # PNG alone: the other readers of PIL have nothing to do with what a box says.
        image = PIL.Image.open(io.BytesIO(_unbase64(v)), formats=["PNG"])
        image.load()
        return image


def _int_of(v: Any) -> int:
    if not isinstance(v, str) or len(v) > DIGITS:
        raise ValueError("an integer with too many digits")
    digits = v.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("an integer that is none")
    value = 0
    for at in range(0, len(digits), _PART_DIGITS):
        part = digits[at:at + _PART_DIGITS]
        value = value * 10 ** len(part) + int(part)
    return -value if v != digits else value


def _float_of(v: Any) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[v]


def _range_of(d: Decoder, v: Any) -> range:
    start, stop, step = (d._value(n) for n in v)
    return range(start, stop, step)


_MAKERS: dict[str, Callable[[Decoder, Any], Any]] = {
    "dict": Decoder.pairs,
    "tuple": lambda d, v: tuple(d._value(list(v))),
    "set": lambda d, v: set(d._value(list(v))),
    "frozenset": lambda d, v: frozenset(d._value(list(v))),
    "bytes": lambda d, v: _unbase64(v),
    "bytearray": lambda d, v: bytearray(_unbase64(v)),
    "int": lambda d, v: _int_of(v),
    "float": lambda d, v: _float_of(v),
    "complex": lambda d, v: complex(*d._value(v)),
    "str": lambda d, v: _unbase64(v).decode("utf-8", "surrogatepass"),
    "range": _range_of,
    "datetime": lambda d, v: datetime.datetime.fromisoformat(v),
    "date": lambda d, v: datetime.date.fromisoformat(v),
    "time": lambda d, v: datetime.time.fromisoformat(v),
    "timedelta": lambda d, v: datetime.timedelta(*v),
    "Decimal": lambda d, v: decimal.Decimal(d._value(v)),
    "Path": lambda d, v: pathlib.Path(d._value(v)),
    "UUID": lambda d, v: uuid.UUID(v),
    "OrderedDict": lambda d, v: collections.OrderedDict(d.pairs(v)),
    "deque": lambda d, v: collections.deque(d._value(v["items"]), v["maxlen"]),
    "enum": Decoder.enum,
    "namedtuple": Decoder.namedtuple,
    "dataclass": Decoder.dataclass,
    "exception": Decoder.exception,
    "ndarray": Decoder.array,
    "image": Decoder.image,
    "repr": lambda d, v: Remote(str(v["type"]), str(v["repr"])),
}


def decode(value: Any, types: Iterable[type] = ()) -> Any:
    """The value of typed JSON from a box. Raises ValueError for what is none.

    A namedtuple or dataclass whose class is not in @types becomes one of a class made for it; an
    enum its value; an exception that is no built-in one a RemoteError; what could not cross a
    Remote. numpy and PIL are needed only for arrays and images (ImportError without).
    """
    return Decoder(types).decode(value)
