# mypy: ignore-errors
# pyright: basic, reportUndefinedVariable=false
# Runs in the box of an executor before its first cell, by exec() with a namespace of its own:
# what a cell calls its variables ("list", "type") changes nothing here. Never imported.
# Given: MAIN, the namespace of cells; TRANSFORMERS, functions (tree, _ast module) -> tree that
# the kernel calls with every cell; LOCAL, whether to be as smolagents' LocalPythonExecutor.
# Must: change what a cell's value is, and nothing of what it does.

VALUE, NEW = '__nsbox_value__', '__nsbox_new__'
NAMES = ('ceil', 'floor', 'log', 'exp', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'atan2',
         'degrees', 'radians', 'sqrt')
PROTECTED = set()


class InterpreterError(ValueError):
    pass


def name(A, place, text, context):
    return A.Name(text, context(), lineno=place.lineno, col_offset=place.col_offset,
                  end_lineno=place.end_lineno, end_col_offset=place.end_col_offset)


def at(place, node):
    node.lineno, node.col_offset = place.lineno, place.col_offset
    node.end_lineno, node.end_col_offset = place.end_lineno, place.end_col_offset
    return node


def assigned(A, statement, value, target):
    return at(statement, A.Assign([name(A, statement, target, A.Store)], value))


def is_simple(A, node):
    # Evaluating it a second time does nothing.
    while isinstance(node, A.Attribute):
        node = node.value
    if isinstance(node, A.Subscript):
        return is_simple(A, node.value) and is_simple(A, node.slice)
    return isinstance(node, (A.Name, A.Constant))


def loaded(A, node):
    # The target of an assignment, to be read.
    if isinstance(node, A.Name):
        return name(A, node, node.id, A.Load)
    if isinstance(node, A.Attribute):
        return at(node, A.Attribute(node.value, node.attr, A.Load()))
    return at(node, A.Subscript(node.value, node.slice, A.Load()))


def with_value(A, statement, target):
    # -> statements that do the same and leave the value of @statement in @target.
    if isinstance(statement, A.Expr):
        return [assigned(A, statement, statement.value, target)]
    if isinstance(statement, A.Assign):
        statement.targets.insert(0, name(A, statement, target, A.Store))
        return [statement]
    if isinstance(statement, A.AugAssign) and is_simple(A, statement.target) or \
            isinstance(statement, A.AnnAssign) and statement.value and \
            is_simple(A, statement.target):
        value = loaded(A, statement.target)
        return [statement, assigned(A, statement, value, target)]
    if isinstance(statement, (A.FunctionDef, A.AsyncFunctionDef, A.ClassDef)):
        value = name(A, statement, statement.name, A.Load)
        return [statement, assigned(A, statement, value, target)]
    if isinstance(statement, (A.If, A.For)):
        statement.body = block(A, statement.body, target)
        if isinstance(statement, A.If):
            statement.orelse = block(A, statement.orelse, target)
    return [statement]


def block(A, body, target):
    # The last value that is not None counts.
    out = []
    for statement in body:
        if isinstance(statement, (A.If, A.For)):
            out += with_value(A, statement, target)
            continue
        made = with_value(A, statement, NEW)
        out += made
        if made != [statement] or isinstance(statement, A.Assign):
            test = at(statement, A.Compare(name(A, statement, NEW, A.Load), [A.IsNot()],
                                           [at(statement, A.Constant(None))]))
            keep = assigned(A, statement, name(A, statement, NEW, A.Load), target)
            out.append(at(statement, A.If(test, [keep], [])))
    return out


def value_of_last(tree, A):
    """The value of a cell is that of its last statement: of an assignment, a def, a block."""
    if not tree.body or isinstance(tree.body[-1], A.Expr):
        return tree
    last = tree.body.pop()
    none = assigned(A, last, at(last, A.Constant(None)), VALUE)
    tree.body += [none] + with_value(A, last, VALUE)
    shown = at(last, A.Expr(name(A, last, VALUE, A.Load)))
    shown.end_col_offset = 1 << 20      # past any ";", which would hide the value
    tree.body.append(shown)
    return tree


def stores(tree, A):
    # Names that the cell itself assigns; a function's own are its own.
    todo = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (A.FunctionDef, A.AsyncFunctionDef, A.ClassDef)):
            yield node.name
            continue
        if isinstance(node, (A.Lambda, A.ListComp, A.SetComp, A.DictComp, A.GeneratorExp)):
            continue
        if isinstance(node, A.Name) and isinstance(node.ctx, A.Store):
            yield node.id
        for field in node._fields:
            value = getattr(node, field, None)
            todo += [n for n in (value if isinstance(value, list) else [value])
                     if hasattr(n, '_fields')]


def keep_tools(tree, A):
    """A cell must not assign to the name of a tool."""
    for stored in stores(tree, A):
        if stored in PROTECTED:
            raise InterpreterError("Cannot assign to name '%s': doing this would erase the "
                                   "existing tool!" % stored)
    return tree


def names_of_user():
    return [n for n in MAIN if n not in FIRST and n not in PROTECTED and n not in (VALUE, NEW)]


TRANSFORMERS[:] = [keep_tools]
if LOCAL:
    import math
    MAIN.update({n: getattr(math, n) for n in NAMES})
    TRANSFORMERS.append(value_of_last)
FIRST = set(MAIN)
