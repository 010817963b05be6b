# Runs what the interpreter's site would have run: the .pth files with "import" lines,
# and a sitecustomize that is not the distribution's. boot.py reads this, in its own
# namespace, only if there is such a thing.
#   PTH_FILES  (N, file): its turn comes when the first N entries of PATH are in sys.path
#   CUSTOM     there is such a sitecustomize
# Must: leave it to the interpreter's own functions what a line, an error or an encoding
# means: they differ by version. Under -S, importing site runs nothing.
# Mustn't: run before sys.prefix is that of the virtual environment.
import site


def add_folders(folders, known):
    for folder in folders:
        if folder not in known:
            known.add(folder)
            sys.path.append(folder)


def run_pth_files():
    # The same set for all files, as in site: what a line puts into sys.path by hand is
    # not in it, so that a later file can add it once more.
    path = PATH or sys.path[:]
    known, done = set(), 0
    del sys.path[:]
    for count, file in PTH_FILES:
        add_folders(path[done:count], known)
        done = count
        folder, _, name = file.rpartition('/')
        site.addpackage(folder or '/', name, known)
    add_folders(path[done:], known)
    return path


def run_site():
    finders = sys.meta_path[:], sys.path_hooks[:]
    site.ENABLE_USER_SITE = False
    path = run_pth_files()
    make_builtins()
    # A line may have opened a way to another one than there was without it.
    if CUSTOM or (sys.meta_path, sys.path_hooks) != finders or sys.path != path:
        site.execsitecustomize()


try:
    run_site()
except BaseException as error:
    # Not an Exception, or site would have told it. At this point the interpreter
    # itself does not start, whatever the status that sys.exit() was given.
    print('Fatal Python error: init_import_site: Failed to import the site module\n'
          'Python runtime state: initialized', file=sys.stderr)
    tb = error.__traceback__
    while tb and tb.tb_frame.f_globals is globals():
        tb = tb.tb_next
    sys.__excepthook__(type(error), error.with_traceback(tb), tb)
    sys.stderr.flush()
    posix._exit(1)
