# Errors of a cell as text and lines. Part of kernel.py: run in its namespace, in the box.
# Must: leave no frame of ours in a traceback, whatever an error says of itself.
TRACE_MAX = 500                     # lines
OURS = __file__.rpartition('/')[0] + '/importlib_bootstrap'


def error_text(error):
    try:
        return clean(cut(str(error), 1 << 16))
    except Exception:
        return '<exception str() failed>'


def forget(error, seen):
    # Our own frames, and what stands above the first line of a cell.
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    frames = error.stack
    first = [i for i, f in enumerate(frames) if f.filename.startswith('<cell ')]
    kept = [f for f in frames[first[0] if first else 0:]
            if not f.filename.startswith(OURS)]
    del frames[:]
    frames.extend(kept)
    forget(error.__cause__, seen)
    forget(error.__context__, seen)
    for part in getattr(error, 'exceptions', None) or ():
        forget(part, seen)


def describe_error(error):
    import traceback
    lines = []
    try:
        told = traceback.TracebackException(type(error), error, error.__traceback__)
        forget(told, set())
        if isinstance(error, KeyboardInterrupt) and not any(
                f.filename.startswith('<cell ') for f in told.stack):
            del told.stack[:]   # it awaited: only the event loop stood there
        for line in told.format():
            lines += line.rstrip('\n').split('\n')
    except Exception as second:     # a __str__ that raises, no memory
        lines.append('%s (no traceback: %s)' % (type(error).__name__,
                                                type(second).__name__))
    if len(lines) > TRACE_MAX:
        gone = len(lines) - TRACE_MAX
        lines[TRACE_MAX // 2:-TRACE_MAX // 2] = ['... [%d lines omitted]' % gone]
    return {'name': clean(type(error).__name__), 'value': error_text(error),
            'traceback': [clean(cut(line, 1 << 14)) for line in lines]}


def exit_code_of(error):
    code = error.code
    if code is None:
        return 0
    return code & 0xff if isinstance(code, int) else 1
