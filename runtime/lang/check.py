# What a source says, without running it: does it parse, what does it import, may it.
# Runs in the box, before any line of the user's, in two places: alone (tier static), and
# in boot.py's namespace when imports.allow is set. lang_check.c writes the settings in
# front of this text:
#   NAME, SOURCE, PROJECT as in boot.py   ALLOW    the modules that may be imported, or None
#   STRICT   imports.mode is "strict"     WITH_AST whether the report has the tree
# The report goes to descriptor 3: a word, a sentence, then one JSON object, a line each.
#
# Must: answer whatever the source is. compile() of the interpreter that would run it
# decides; a source that breaks the interpreter only breaks this box.
# Mustn't: import what takes time; a check is to cost little more than compile() alone.
import sys, posix

MAX_IMPORTS, MAX_NAMES, MAX_TEXT = 1000, 100, 500
PARSE_ONLY = 0x400  # ast.PyCF_ONLY_AST


def json_str(s):
    s = s.encode('utf-8', 'replace').decode()  # lone surrogates are no Unicode
    try:
        from _json import encode_basestring_ascii as quote
    except ImportError:
        from json.encoder import encode_basestring_ascii as quote
    return quote(s)


def json_of(value):
    if value is None:
        return 'null'
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json_str(value)
    if isinstance(value, dict):
        return '{%s}' % ','.join(json_str(k) + ':' + json_of(v) for k, v in value.items())
    return '[%s]' % ','.join(map(json_of, value))


def first(text, limit=MAX_TEXT):
    return text if text is None or len(text) <= limit else text[:limit] + '...'


# --- what may be imported ----------------------------------------------------

def is_allowed(module):
    if ALLOW is None:
        return True
    if not STRICT:
        top = module.partition('.')[0]
        return any(top == a.partition('.')[0] for a in ALLOW)
    # Exact modules; "pkg.*" has the package too; a parent of what is allowed is
    # imported with it.
    for a in ALLOW:
        if a == '*' or module == a or a.startswith(module + '.'):
            return True
        if a.endswith('.*') and (module + '.').startswith(a[:-1]):
            return True
    return False


def is_own(module):
    # A module of the user's own project is his code, and is judged as such.
    if not PROJECT:
        return False
    path = PROJECT + '/' + module.partition('.')[0]
    for place in (path + '.py', path):
        try:
            posix.stat(place)
        except (OSError, ValueError):
            continue
        return True
    return False


def import_rows(node):
    # Each: module, names, relative level
    if type(node).__name__ == 'Import':
        for alias in node.names:
            yield alias.name, [], 0
    else:
        yield node.module or '', [a.name for a in node.names], node.level or 0


def find_imports(tree):
    # In the order of the source. Imports are statements, and no expression has one in it.
    found, todo = [], [tree]
    while todo:
        node = todo.pop()
        if type(node).__name__ in ('Import', 'ImportFrom'):
            for module, names, level in import_rows(node):
                found.append((node.lineno, module, names, level))
            continue
        children = []
        for field in ('body', 'handlers', 'orelse', 'finalbody', 'cases'):
            part = getattr(node, field, None)
            if isinstance(part, list):
                children += part
        todo += reversed(children)
    return found


# --- the report --------------------------------------------------------------

def place(e, name):
    # Lines and columns count from 1; 0 and -1 are "nowhere".
    number = getattr(e, name, None)
    return number if isinstance(number, int) and number > 0 else None


def error_of(e):
    return {'type': type(e).__name__, 'message': first(getattr(e, 'msg', None) or str(e)),
            'line': place(e, 'lineno'), 'column': place(e, 'offset'),
            'end_line': place(e, 'end_lineno'), 'end_column': place(e, 'end_offset'),
            'text': first((getattr(e, 'text', None) or '').rstrip('\n') or None)}


def null_byte(source):
    # compile() says ValueError here before 3.12.
    line = source.count(b'\n', 0, source.index(b'\0')) + 1
    return SyntaxError('source code cannot contain null bytes', (NAME, line, None, None))


def line_of(source, number):
    lines = source.split(b'\n', number)
    return lines[number - 1].decode('utf-8', 'replace') if number <= len(lines) else None


def quiet_tree(source):
    # compile() has said its warnings already; without a stderr there are none.
    saved, sys.stderr = sys.stderr, None
    try:
        return compile(source, NAME, 'exec', PARSE_ONLY, dont_inherit=True)
    finally:
        sys.stderr = saved


def parse(source):
    # -> (code, tree, error). What compile() says of the source itself counts: a tree alone
    # would let "return" at the top pass, and compile() of a tree gives up at less depth.
    try:
        if b'\0' in source:
            raise null_byte(source)
        return compile(source, NAME, 'exec', dont_inherit=True), quiet_tree(source), None
    except Exception as e:  # MemoryError and RecursionError among them
        error = error_of(e)
        if error['line'] and error['text'] is None:
            error['text'] = first(line_of(source, error['line']))
        return None, None, error


def judge(imports):
    refused = []
    for line, module, names, level in imports:
        name = first(module if STRICT else module.partition('.')[0], 256)
        if not level and not is_allowed(module) and not is_own(module) and name not in refused:
            refused.append(name)
    if refused:
        return refused, 'unauthorized_imports', \
            'Unauthorized imports detected: ' + first(', '.join(refused), 2000)
    for line, module, names, level in imports:
        if level and ALLOW is not None:
            return refused, 'relative_import', 'relative import in line %d: from %s%s import %s' % (
                line, '.' * min(level, 20), first(module, 256), first(', '.join(names), 256))
    return refused, 'ok', None


def examine(source):
    # -> (word, sentence, analysis as JSON, code object or None)
    code, tree, error = parse(source)
    imports = find_imports(tree) if tree else []
    refused, word, sentence = [], 'ok', 'the source parses'
    if error:
        word, sentence = 'parse_failed', 'Parse failed.'
        if error['line']:
            sentence += ' Line %d: %s' % (error['line'], error['message'])
        else:
            sentence += ' ' + (error['message'] or error['type'])
    else:
        refused, word, found = judge(imports)
        sentence = found if word != 'ok' else sentence
    tree_text = ast_json(tree) if WITH_AST and tree else None
    rows = [{'module': first(m, 256), 'names': [first(n, 256) for n in names[:MAX_NAMES]],
             'line': line, 'level': level} for line, m, names, level in imports[:MAX_IMPORTS]]
    text = '{"language":"python","ok":%s,"error":%s,"imports":%s,"imports_truncated":%s,' \
        '"unauthorized":%s,"ast":%s,"ast_truncated":%s}' % (
            json_of(not error), json_of(error), json_of(rows),
            json_of(len(imports) > MAX_IMPORTS), json_of(refused[:MAX_NAMES]),
            tree_text or 'null', json_of(bool(WITH_AST and tree and not tree_text)))
    return word, sentence, text, code


def send_report(word, sentence, analysis):
    line = ''.join(c if c.isprintable() else '?' for c in sentence)
    data = ('%s\n%s\n%s\n' % (word, line.encode('utf-8', 'replace').decode(), analysis)).encode()
    while data:
        data = data[posix.write(3, data):]
