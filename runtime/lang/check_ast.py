
# The syntax tree of a source as JSON. Behind check.py where the report is to have it.
MAX_AST_BYTES, MAX_AST_DEPTH = 1 << 20, 200

class TooLarge(Exception):
    pass


def put_constant(out, value):
    if value is None or value is True or value is False or isinstance(value, str):
        out.append(json_of(value))
    elif isinstance(value, int) and -2**53 <= value <= 2**53:
        out.append(str(value))
    elif isinstance(value, float) and value - value == 0:
        out.append(repr(value))
    elif isinstance(value, int):
        out.append('{"_int":"%x"}' % value)  # decimal digits have a limit of their own
    elif isinstance(value, bytes):
        out.append('{"_bytes":"%s"}' % value.hex())
    else:
        out.append('{"_repr":%s}' % json_str(repr(value)))


def put_node(out, node, depth, budget):
    if depth > MAX_AST_DEPTH:
        raise TooLarge
    if isinstance(node, list):
        out.append('[')
        for i, item in enumerate(node):
            if i:
                out.append(',')
            put_node(out, item, depth + 1, budget)
        out.append(']')
    elif not hasattr(node, '_fields'):
        put_constant(out, node)
    else:
        out.append('{"_type":"%s"' % type(node).__name__)
        if hasattr(node, 'lineno'):
            for name in ('lineno', 'col_offset', 'end_lineno', 'end_col_offset'):
                out.append(',"%s":%s' % (name, json_of(getattr(node, name, None))))
        for field in node._fields:
            out.append(',"%s":' % field)
            put_node(out, getattr(node, field, None), depth + 1, budget)
        out.append('}')
    budget[0] -= 1
    if budget[0] < 0:
        raise TooLarge


def ast_json(tree):
    out = []
    try:
        put_node(out, tree, 0, [MAX_AST_BYTES // 8])
        text = ''.join(out)
    except (TooLarge, RecursionError, MemoryError):
        return None
    return text if len(text) <= MAX_AST_BYTES else None
