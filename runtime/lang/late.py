# What boot.py needs only for some programs: run in its namespace by load_late(),
# in the box, as the payload. The same promises hold.


def fill_linecache(linecache):
    lines = linecache.getlines(SOURCE)
    # No mtime: checkcache() keeps the entry although no such file exists.
    linecache.cache[NAME] = (sum(map(len, lines)), None, lines, NAME)


def fix_spawn(spawn):
    # A module without __file__ is not imported again by the workers of the
    # methods "spawn" and "forkserver", which would then miss its functions.
    original = spawn.get_preparation_data

    def get_preparation_data(name):
        data = original(name)
        if 'init_main_from_name' not in data:
            data.setdefault('init_main_from_path', SOURCE)
        return data

    spawn.get_preparation_data = get_preparation_data


LATE_TODO = {}
if NAME != SOURCE:
    LATE_TODO = {'linecache': fill_linecache, 'multiprocessing.spawn': fix_spawn}


def complete_imported():
    for name in list(LATE_TODO):
        if name in sys.modules:
            LATE_TODO.pop(name)(sys.modules[name])


def wants_setuptools():
    # Gone from the library in 3.12. Before, a .pth file of setuptools says whose
    # distutils it is to be; nobody has run it (interp_probe.c knows the wording).
    import os
    default = 'local' if sys.version_info >= (3, 12) else 'stdlib'
    for folder in sys.path:
        try:
            with open(folder + '/distutils-precedence.pth', 'rb') as f:
                default = 'local' if b"'local') == 'local'" in f.read() else default
        except OSError:
            pass
    return os.environ.get('SETUPTOOLS_USE_DISTUTILS', default) == 'local'


def find_distutils(path, target):
    if not sys.flags.no_site or not wants_setuptools():
        return None
    try:
        import _distutils_hack as hack
    except ImportError:
        return None
    return hack.DistutilsMetaFinder().find_spec('distutils', path, target)


def complete_import(finder, name, path, target):
    if name == 'distutils':
        return find_distutils(path, target)
    complete = LATE_TODO.pop(name, None)
    if not complete:
        return None
    for other in sys.meta_path:
        spec = other is not finder and other.find_spec(name, path, target)
        if spec:
            break
    if not spec:
        return None
    run = spec.loader.exec_module

    def exec_module(module):
        run(module)
        complete(module)

    spec.loader.exec_module = exec_module
    return spec


def refuse_null(source):
    # compile() says ValueError here before 3.12.
    line = source.count(b'\n', 0, source.index(b'\0')) + 1
    raise SyntaxError('source code cannot contain null bytes',
                      (NAME, line, None, None))


def format_exception(kind, value, tb):
    import traceback
    text = traceback.format_exception(kind, value, tb)
    if sys.version_info < (3, 12):
        # Only the interpreter's own printer knows "Did you mean" there.
        import io
        saved, sys.stderr = sys.stderr, io.StringIO()
        try:
            sys.__excepthook__(kind, value, tb)
            last = sys.stderr.getvalue().splitlines(True)[-1:]
        finally:
            sys.stderr = saved
        if text and last and last[0].startswith(text[-1].rstrip('\n')):
            text[-1] = last[0]
    return ''.join(text)


def clean_traceback(value):
    # Drops our own frames. From 3.11 on a bare "raise" raises what the value holds.
    # Older ones keep the traceback elsewhere, so the hook is told; and before
    # 3.13 the interpreter's own printer shows no source of names like "<code>".
    clean = value.__traceback__ = value.__traceback__.tb_next
    while clean and clean.tb_frame.f_globals is globals():
        clean = value.__traceback__ = clean.tb_next
    original, text = sys.excepthook, None
    if NAME != SOURCE and sys.version_info < (3, 13) \
            and original is sys.__excepthook__ and clean:
        # Now, not in the hook: an eval() there, by an import say, would make the
        # interpreter forget that it has to die of SIGINT.
        try:
            text = format_exception(type(value), value, clean)
        except Exception:
            pass

    def excepthook(kind, exc, tb):
        sys.excepthook = original
        exc.__traceback__ = clean
        if text is None or sys.stderr is None:
            return original(kind, exc, clean)
        sys.stderr.write(text)

    if text is not None or sys.version_info < (3, 11):
        sys.excepthook = excepthook
