# The source of a cell as a tree, with "!command" lines as calls of the shell. Part of
# kernel.py: run in its namespace, in the box.
# Mustn't: change a line that the compiler takes for Python.


def find_shell_line(source, error):
    # "!command", alone or assigned, where the compiler found no Python.
    lines = source.split('\n')
    at = (error.lineno or 0) - 1
    if not 0 <= at < len(lines):
        return None
    line = lines[at]
    target, mark, command = line.partition('!')
    name = target.strip()
    if not mark or (name and not (name.endswith('=') and name[:-1].strip().isidentifier())):
        return None
    end = at
    while command.endswith('\\') and end + 1 < len(lines):
        end += 1
        command += '\n' + lines[end]
    call = '__nsbox_lines__' if name else '__nsbox_shell__'
    lines[at:end + 1] = ['%s%s(%r, globals(), locals())' % (target, call, command)] + \
        [''] * (end - at)
    return '\n'.join(lines)


def parse_cell(source, name):
    flags = AWAIT | now.flags | _ast.PyCF_ONLY_AST
    first = None
    while True:
        try:
            return compile(source, name, 'exec', flags, True)
        except SyntaxError as error:
            first = first or error
            source = find_shell_line(source, error)
            if source is None:
                raise first from None
        except ValueError as error:     # a null byte, before 3.12
            raise SyntaxError(str(error), (name, 1, 1, '')) from None


def interpolate(command, names):
    out, rest = '', command
    while True:
        before, mark, rest = rest.partition('{')
        out += before
        if not mark:
            return out
        inner, end, after = rest.partition('}')
        try:
            out += str(eval(inner, *names)) if end else mark
            rest = after if end else rest
        except Exception:
            out += mark     # of the shell's


def shell(command, *names):
    import subprocess
    flush_streams()
    done = subprocess.run(interpolate(command, names), shell=True, stdin=subprocess.DEVNULL)
    MAIN['_exit_code'] = done.returncode


def shell_lines(command, *names):
    import subprocess
    done = subprocess.run(interpolate(command, names), shell=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, errors='replace')
    MAIN['_exit_code'] = done.returncode
    return done.stdout.splitlines()
