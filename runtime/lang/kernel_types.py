# Values as typed JSON and back. Part of kernel.py: run in its namespace, in the box.
# None, True, numbers within 2**53, strings, lists and dicts with string keys are plain
# JSON; all else is {"$t": tag, "v": ...}. A dict that has a key "$t" is written as pairs,
# so that no value of the user's is ever taken for one of ours.
# Must: bound depth, size and time, whatever a value holds (itself, say).
# Mustn't: import what the user has not: a type that is not loaded has no values.
import binascii

ROOM = 58           # levels of JSON for one value; a frame has 64
NODES_MAX = 4000000
CONTAINER = 4       # of them, for the memory it takes
BYTES_MAX = 40 << 20
EXACT = 1 << 53
REPR_MAX = 1 << 20  # characters


class Untransferable(Exception):
    """A value that cannot cross; the text says which part of it."""


def cut(text, most=REPR_MAX):
    if len(text) <= most:
        return text
    return '%s... [%d characters omitted]' % (text[:most], len(text) - most)


def clean(text):
    # Lone surrogates have no UTF-8.
    return text.encode('utf-8', 'backslashreplace').decode('utf-8')


def safe_repr(value):
    try:
        return clean(cut(repr(value)))
    except Exception as error:
        return '<%s object, its repr() raised %s>' % (type(value).__name__,
                                                      type(error).__name__)


def as_repr(value):
    kind = type(value)
    name = '%s.%s' % (kind.__module__, kind.__qualname__)
    return {'$t': 'repr', 'v': {'type': clean(name), 'repr': safe_repr(value)}}


def base64(data):
    return binascii.b2a_base64(data, newline=False).decode('ascii')


def unbase64(text):
    return binascii.a2b_base64(text.encode('ascii'))


def loaded(module, name):
    return getattr(sys.modules.get(module), name, None)


def is_a(value, module, name):
    kind = loaded(module, name)
    return isinstance(kind, type) and isinstance(value, kind)


class Encoder:
    def __init__(self, strict):
        self.strict, self.nodes, self.bytes = strict, 0, 0

    def count(self, size, nodes=1):
        self.nodes += nodes
        self.bytes += size
        if self.nodes > NODES_MAX or self.bytes > BYTES_MAX:
            raise Untransferable('the value is too large')

    def text(self, s):
        self.count(len(s))
        if not is_unicode(s):
            return tagged('str', base64(s.encode('utf-8', 'surrogatepass')))
        return s

    def blob(self, tag, data):
        self.count(len(data) * 4 // 3)
        return tagged(tag, base64(data))

    def integer(self, n):
        self.count(8)
        if -EXACT <= n <= EXACT:
            return int(n)
        self.count(n.bit_length() // 3)
        return tagged('int', decimal(n))

    def number(self, x):
        self.count(8)
        if x != x:
            return tagged('float', 'nan')
        if x in (INFINITY, -INFINITY):
            return tagged('float', 'inf' if x > 0 else '-inf')
        return x

    def items(self, values, room):
        if room < 1:
            raise Untransferable('the value is nested too deeply')
        self.count(2, CONTAINER)
        out, plain = [], 0
        for v in values:
            kind = type(v)
            # Most of a long list is one of these: no call for each.
            if (kind is int and -EXACT <= v <= EXACT) or kind is bool or v is None or \
                    (kind is float and -INFINITY < v < INFINITY):
                plain += 1
                out.append(v)
            else:
                out.append(self.value(v, room - 1))
        self.count(8 * plain, plain)
        return out

    def pairs(self, value, room):
        if room < 2:
            raise Untransferable('the value is nested too deeply')
        self.count(2, CONTAINER)
        return [[self.value(k, room - 2), self.value(v, room - 2)]
                for k, v in value.items()]

    def plain(self, value, room):
        return {k: self.value(v, room - 1) for k, v in value.items()}

    def mapping(self, value, room):
        if room < 1:
            raise Untransferable('the value is nested too deeply')
        self.count(2, CONTAINER)
        for key in value:
            if type(key) is not str or key == '$t' or not is_unicode(key):
                return tagged('dict', self.pairs(value, room - 1))
            self.count(len(key))
        return self.plain(value, room)

    def value(self, value, room):
        kind = type(value)
        encode = PLAIN.get(kind)
        if encode:
            return encode(self, value, room)
        for encode in SPECIAL:
            done = encode(self, value, room)
            if done is not None:
                return done
        if self.strict:
            raise Untransferable('a value of type %s.%s cannot cross'
                                 % (kind.__module__, kind.__qualname__))
        done = as_repr(value)
        self.count(len(done['v']['repr']))
        return done


def is_unicode(s):
    try:
        return s.isascii() or s.encode('utf-8') is not None
    except UnicodeEncodeError:
        return False


def tagged(tag, value):
    return {'$t': tag, 'v': value}


def decimal(n):
    # str() refuses numbers of more than 4300 digits (3.11), and is slow for good reason.
    if n.bit_length() > 100000:
        raise Untransferable('an integer of %d bits is too large' % n.bit_length())
    old = getattr(sys, 'get_int_max_str_digits', int)()
    if not old:
        return str(n)
    sys.set_int_max_str_digits(0)
    try:
        return str(n)
    finally:
        sys.set_int_max_str_digits(old)


INFINITY = float('inf')
PLAIN = {
    type(None): lambda e, v, room: None,
    bool: lambda e, v, room: v,
    int: lambda e, v, room: e.integer(v),
    float: lambda e, v, room: e.number(v),
    str: lambda e, v, room: e.text(v),
    list: lambda e, v, room: e.items(v, room),
    dict: lambda e, v, room: e.mapping(v, room),
    tuple: lambda e, v, room: tagged('tuple', e.items(v, room - 1)),
    set: lambda e, v, room: tagged('set', e.items(v, room - 1)),
    frozenset: lambda e, v, room: tagged('frozenset', e.items(v, room - 1)),
    bytes: lambda e, v, room: e.blob('bytes', v),
    bytearray: lambda e, v, room: e.blob('bytearray', v),
    complex: lambda e, v, room: tagged('complex', [e.number(v.real), e.number(v.imag)]),
    range: lambda e, v, room: tagged('range', [e.integer(n) for n in
                                               (v.start, v.stop, v.step)]),
}


def encode_time(e, v, room):
    kind = type(v)
    for name in ('datetime', 'date', 'time'):
        if kind is loaded('datetime', name):
            e.count(32)
            return tagged(name, v.isoformat())
    if kind is loaded('datetime', 'timedelta'):
        return tagged('timedelta', [v.days, v.seconds, v.microseconds])
    return None


def encode_text(e, v, room):
    if type(v) is loaded('decimal', 'Decimal'):
        return tagged('Decimal', e.text(str(v)))
    if is_a(v, 'pathlib', 'PurePath'):
        return tagged('Path', e.text(str(v)))
    if type(v) is loaded('uuid', 'UUID'):
        return tagged('UUID', str(v))
    return None


def names_of(v):
    kind = type(v)
    return {'name': clean(kind.__qualname__), 'module': clean(str(kind.__module__))}


def encode_shape(e, v, room):
    # What the user's own classes are made of: enum, namedtuple, dataclass.
    kind = type(v)
    if is_a(v, 'enum', 'Enum'):
        return tagged('enum', dict(names_of(v), member=clean(str(v.name)),
                                   value=e.value(v.value, room - 2)))
    fields = getattr(kind, '_fields', None)
    if isinstance(v, tuple) and type(fields) is tuple:
        return tagged('namedtuple', dict(names_of(v), fields=[str(f) for f in fields],
                                         values=e.items(v, room - 2)))
    fields = getattr(kind, '__dataclass_fields__', None)
    if type(fields) is dict:
        names = [f.name for f in fields.values() if loaded('dataclasses', '_FIELD') in
                 (None, f._field_type)]
        values = {n: getattr(v, n) for n in names if hasattr(v, n)}
        return tagged('dataclass', dict(names_of(v), fields=e.plain(values, room - 2)))
    return None


def encode_collection(e, v, room):
    kind = type(v)
    if kind is loaded('collections', 'OrderedDict'):
        return tagged('OrderedDict', e.pairs(v, room - 1))
    if kind is loaded('collections', 'deque'):
        return tagged('deque', {'items': e.items(v, room - 2), 'maxlen': v.maxlen})
    if isinstance(v, BaseException):
        return tagged('exception', dict(names_of(v), name=clean(kind.__name__),
                                        value=error_text(v)))
    return None


def encode_array(e, v, room):
    array = loaded('numpy', 'ndarray')
    if array and not isinstance(v, (array, sys.modules['numpy'].generic)):
        array = None
    if not array or v.dtype.kind not in 'biufcSUMm' or v.dtype.fields:
        return None
    data = v.tobytes()
    e.count(len(data) * 4 // 3)
    return tagged('ndarray', {'dtype': v.dtype.str, 'shape': list(v.shape),
                              'data': base64(data)})


def encode_image(e, v, room):
    if not is_a(v, 'PIL.Image', 'Image'):
        return None
    return e.blob('image', png_of(v))


SPECIAL = [encode_shape, encode_time, encode_text, encode_collection, encode_array,
           encode_image]


def png_of(image):
    import io
    file = io.BytesIO()
    if image.mode not in ('1', 'L', 'LA', 'P', 'RGB', 'RGBA', 'I', 'I;16'):
        image = image.convert('RGBA' if 'A' in image.mode or 'a' in image.mode else 'RGB')
    image.save(file, 'PNG')
    return file.getvalue()


def to_json(value, strict=False):
    try:
        return Encoder(strict).value(value, ROOM)
    except (Untransferable, RecursionError, MemoryError, OverflowError) as error:
        if strict:
            raise TypeError(str(error) or type(error).__name__) from None
    except Exception as error:  # of a method of the value's
        if strict:
            raise TypeError('the value cannot cross: %s' % error_text(error)) from None
    return as_repr(value)


# ---------------------------------------------------------------------- back

def find_class(v, wanted):
    # Only what is loaded: a name from outside imports nothing.
    kind = sys.modules.get(v.get('module'))
    for part in str(v['name']).split('.'):
        kind = getattr(kind, part, None)
    return kind if isinstance(kind, type) and wanted(kind) else None


def decode_enum(v):
    kind = find_class(v, lambda k: is_a(k, 'enum', 'EnumMeta'))
    return kind[v['member']] if kind else decode(v['value'])


def decode_namedtuple(v):
    fields, values = tuple(v['fields']), decode_all(v['values'])
    kind = find_class(v, lambda k: getattr(k, '_fields', None) == fields)
    if not kind:
        import collections
        kind = collections.namedtuple(v['name'].rpartition('.')[2], fields)
    return kind(*values)


def decode_dataclass(v):
    fields = {k: decode(f) for k, f in v['fields'].items()}
    kind = find_class(v, lambda k: hasattr(k, '__dataclass_fields__'))
    if not kind:
        import dataclasses
        kind = dataclasses.make_dataclass(v['name'].rpartition('.')[2], list(fields))
    value = object.__new__(kind)
    for name, field in fields.items():
        object.__setattr__(value, name, field)
    return value


def decode_exception(v):
    return exception_of(v['name'], v['value'])


def exception_of(name, text):
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = type(name, (RuntimeError,), {'__module__': 'builtins'})
    try:
        return kind(text)
    except TypeError:  # UnicodeDecodeError takes five
        return RuntimeError('%s: %s' % (name, text))


def decode_array(v):
    import numpy
    array = numpy.frombuffer(unbase64(v['data']), dtype=numpy.dtype(v['dtype']))
    array = array.reshape(v['shape']).copy()
    return array if v['shape'] else array[()]


def decode_image(v):
    import io
    import PIL.Image
    image = PIL.Image.open(io.BytesIO(unbase64(v)))
    image.load()
    return image


def decode_deque(v):
    import collections
    return collections.deque(decode_all(v['items']), v['maxlen'])


def decode_ordered(v):
    import collections
    return collections.OrderedDict(decode_pairs(v))


def decode_integer(v):
    if len(v) > 40000:
        raise ValueError('an integer of %d digits' % len(v))
    old = getattr(sys, 'get_int_max_str_digits', int)()
    if old:
        sys.set_int_max_str_digits(0)
    try:
        return int(v)
    finally:
        if old:
            sys.set_int_max_str_digits(old)


def maker(module, name, method=None):
    def make(v):
        kind = getattr(__import__(module), name)
        return (getattr(kind, method) if method else kind)(v)
    return make


def decode_all(values):
    return [decode(v) for v in values]


def decode_pairs(values):
    return {decode(k): decode(v) for k, v in values}


DECODE = {
    'dict': decode_pairs,
    'tuple': lambda v: tuple(decode_all(v)),
    'set': lambda v: set(decode_all(v)),
    'frozenset': lambda v: frozenset(decode_all(v)),
    'bytes': unbase64,
    'bytearray': lambda v: bytearray(unbase64(v)),
    'int': decode_integer,
    'float': float,
    'complex': lambda v: complex(*decode_all(v)),
    'str': lambda v: unbase64(v).decode('utf-8', 'surrogatepass'),
    'range': lambda v: range(*decode_all(v)),
    'datetime': maker('datetime', 'datetime', 'fromisoformat'),
    'date': maker('datetime', 'date', 'fromisoformat'),
    'time': maker('datetime', 'time', 'fromisoformat'),
    'timedelta': lambda v: __import__('datetime').timedelta(*v),
    'Decimal': maker('decimal', 'Decimal'),
    'Path': maker('pathlib', 'Path'),
    'UUID': maker('uuid', 'UUID'),
    'enum': decode_enum,
    'namedtuple': decode_namedtuple,
    'dataclass': decode_dataclass,
    'exception': decode_exception,
    'ndarray': decode_array,
    'image': decode_image,
    'deque': decode_deque,
    'OrderedDict': decode_ordered,
}


def decode(value):
    if type(value) is list:
        return decode_all(value)
    if type(value) is not dict:
        return value
    if '$t' not in value:
        return {k: decode(v) for k, v in value.items()}
    make = DECODE.get(value['$t'])
    if not make or set(value) != {'$t', 'v'}:
        raise ValueError('a value with the tag %r cannot be taken over' % (value['$t'],))
    return make(value['v'])
