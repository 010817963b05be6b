# Starts the user's program. Runs in the box, as the payload, before any line of
# the user's. lang.c writes the settings in front of this text:
#   NAME    what tracebacks call the program: "<code>" or the script's path
#   SOURCE  the file that holds it        ARGV0    sys.argv[0]
#   PATH    sys.path, or [] to keep it    PROJECT  the folder that comes last
# Must: leave no trace in the user's module, and no frame in his tracebacks.
# Mustn't: import what the user may not need; every module costs start-up time.
#
# The file is called importlib_bootstrap.py in the box because the warnings module
# skips frames whose file name holds "importlib" and "_bootstrap": a
# warning raised with stacklevel=2 then names no file of ours.
import builtins, posix, sys


def make_builtins():
    # What site would have added. _Printer imports os, so it waits for its use.
    import _sitebuiltins as site

    class Printer:
        def __init__(self, name, text):
            self.name, self.text = name, text

        def __repr__(self):
            return repr(site._Printer(self.name, self.text))

        def __call__(self):
            return site._Printer(self.name, self.text)()

    eof = 'Ctrl-D (i.e. EOF)'
    builtins.exit = site.Quitter('exit', eof)
    builtins.quit = site.Quitter('quit', eof)
    builtins.help = site._Helper()
    builtins.copyright = Printer('copyright', sys.copyright)
    builtins.credits = Printer(
        'credits', 'See www.python.org for who made Python.')
    builtins.license = Printer(
        'license', 'See https://www.python.org/psf/license/')


def find_venv():
    # Before 3.14 it is site that moves sys.prefix into a virtual environment.
    folder = sys.executable.rpartition('/')[0]
    prefix = folder.rpartition('/')[0]
    for place in (folder, prefix):
        try:
            posix.stat(place + '/pyvenv.cfg')
        except OSError:
            continue
        sys.prefix = sys.exec_prefix = prefix
        return


def set_path():
    if sys.flags.no_site:
        make_builtins()
        find_venv()
        if PATH:
            sys.path[:] = PATH
    else:
        sys.path += [p for p in PATH if p not in sys.path]
    if PROJECT:
        sys.path.append(PROJECT)


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


class Late:
    # Completes two modules of the standard library once they are imported.
    todo = {'linecache': fill_linecache, 'multiprocessing.spawn': fix_spawn}

    @classmethod
    def install(cls):
        for name in list(cls.todo):
            if name in sys.modules:
                cls.todo.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, cls)

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in cls.todo:
            return None
        for finder in sys.meta_path:
            spec = finder is not cls and finder.find_spec(name, path, target)
            if spec:
                break
        if not spec:
            return None
        complete, run = cls.todo.pop(name), spec.loader.exec_module
        if not cls.todo:
            sys.meta_path.remove(cls)

        def exec_module(module):
            run(module)
            complete(module)

        spec.loader.exec_module = exec_module
        return spec


def make_main():
    # A module of its own, so that nothing of ours is in its namespace.
    main = type(sys)('__main__')
    main.__builtins__ = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    if NAME == SOURCE:
        external = sys.modules['_frozen_importlib_external']
        main.__loader__ = external.SourceFileLoader('__main__', SOURCE)
        main.__file__ = SOURCE
        main.__cached__ = None
    else:
        main.__loader__ = sys.modules['_frozen_importlib'].BuiltinImporter
        Late.install()
    sys.modules['__main__'] = main
    return main.__dict__


def make_code():
    with open(SOURCE, 'rb') as f:
        source = f.read()
    if b'\0' in source:
        # compile() says ValueError here before 3.12.
        line = source.count(b'\n', 0, source.index(b'\0')) + 1
        raise SyntaxError('source code cannot contain null bytes',
                          (NAME, line, None, None))
    return compile(source, NAME, 'exec', dont_inherit=True)


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
            and original is sys.__excepthook__ \
            and clean and not isinstance(value, SystemExit):
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


try:
    set_path()
    sys.argv[0] = ARGV0
    exec(make_code(), make_main())
except BaseException as error:
    clean_traceback(error)
    raise
