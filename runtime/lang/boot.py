# Starts the user's program. Runs in the box, as the payload, before any line of
# the user's. lang.c writes the settings in front of this text:
#   NAME    what tracebacks call the program: "<code>" or the script's path
#   SOURCE  the file that holds it        ARGV0    sys.argv[0]
#   PATH    sys.path, or [] to keep it    PROJECT  the folder that comes last
#   PACKAGES  the folder of what was installed for this run, or None
#   PACKAGES_PTH  the names of its .pth files
#   LATE    the file late.py              CHECK    the file that judges imports, or None
#   KERNEL  the files of a kernel, in the order in which they are run, or []
#   PTH     the file pth.py, if the start of this interpreter runs foreign code, or
#           None; then PTH_FILES and CUSTOM say which
# Must: leave no trace in the user's module, and no frame in his tracebacks.
# Mustn't: import or define what the user may not need: this text is compiled at
# every start, so that what only some programs need is in late.py.
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
    url = 'See https://www.python.org/psf/'
    builtins.copyright = Printer('copyright', sys.copyright)
    builtins.credits = Printer('credits', url)
    builtins.license = Printer('license', url + 'license/')


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
        find_venv()
        if PTH:
            load(PTH)
        else:
            make_builtins()
            if PATH:
                sys.path[:] = PATH
    else:
        sys.path += [p for p in PATH if p not in sys.path]
    if PACKAGES:
        # Before the interpreter's own packages, behind its library.
        known = (n for n, p in enumerate(sys.path) if p.endswith('-packages'))
        sys.path.insert(next(known, len(sys.path)), PACKAGES)
    if PROJECT:
        sys.path.append(PROJECT)


def run_packages_pth():
    # After the source was judged: such a file runs code of a package. PROJECT stays last.
    import site
    known = set(sys.path)
    for name in PACKAGES_PTH:
        site.addpackage(PACKAGES, name, known)
    if PROJECT in sys.path:
        sys.path.remove(PROJECT)
        sys.path.append(PROJECT)


def load(path):
    with open(path, 'rb') as f:
        exec(compile(f.read(), path, 'exec'), globals())


def load_late():
    if 'clean_traceback' not in globals():
        load(LATE)


class Late:
    # Notices the import of three modules; see late.py.
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in ('linecache', 'multiprocessing.spawn', 'distutils'):
            return None
        load_late()
        return complete_import(cls, name, path, target)


def make_main():
    # A module of its own, so that nothing of ours is in its namespace.
    main = type(sys)('__main__')
    sys.meta_path.insert(0, Late)
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
        if 'linecache' in sys.modules:
            load_late()
            complete_imported()
    sys.modules['__main__'] = main
    return main.__dict__


def checked(source):
    # imports.allow is set. Told on descriptor 3, which is gone before the user's code
    # runs, so that nobody else can tell it.
    load(CHECK)
    word, sentence, analysis, code = examine(source)
    send_report(word, sentence, analysis)
    posix.close(3)
    if word != 'ok':
        raise SystemExit(122)
    guard_imports()
    return code


def make_code():
    with open(SOURCE, 'rb') as f:
        source = f.read()
    if CHECK:
        return checked(source)
    if b'\0' in source:
        load_late()
        refuse_null(source)
    return compile(source, NAME, 'exec', dont_inherit=True)


try:
    sys.argv[0] = ARGV0
    set_path()
    if KERNEL:
        if PACKAGES_PTH:
            run_packages_pth()
        for part in KERNEL:
            load(part)
        run_kernel()
    program = make_code()
    if PACKAGES_PTH:
        run_packages_pth()
    exec(program, make_main())
except SystemExit:
    raise
except BaseException as error:
    try:
        load_late()
        clean_traceback(error)
    except Exception:
        pass  # no descriptor or memory left: one more frame is in the traceback
    raise
