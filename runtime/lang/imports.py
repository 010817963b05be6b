# Judges imports while the user's code runs: what static analysis cannot see, as
# __import__(name), importlib.import_module(name) and exec("import x"). Runs in the box, in
# the namespace of boot.py after check.py, before the user's first line.
#
# A guard for mistakes. The wall is the box: code that wants to get around this finds a way
# (sys.modules, a reference that a library holds), and gains nothing that the box does not
# give it anyway.
#
# Only imports that the user's code asks for are judged; what an allowed module imports for
# itself is its own business. Code is a library's when its globals are those of a module
# that did not come from the user's project, or when such a module runs it by exec().


def owner(caller_globals):
    # 'user', 'library', or None: globals of no module, as exec() with a dict has them.
    name = caller_globals.get('__name__')
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None or getattr(module, '__dict__', None) is not caller_globals:
        return None
    if name == '__main__':
        return 'user'
    file = getattr(module, '__file__', None)
    is_project = PROJECT and isinstance(file, str) and file.startswith(PROJECT + '/')
    return 'user' if is_project else 'library'


def is_users(frame):
    # Who runs code by exec() answers for it: namedtuple() of older interpreters does.
    if frame.f_globals is globals():
        return False  # boot.py's own
    while frame:
        found = owner(frame.f_globals)
        if found:
            return found == 'user'
        frame = frame.f_back
    return True


def refusal(name):
    allowed = ', '.join(ALLOW) if ALLOW else 'none'
    return ImportError('import of %r is not allowed (imports.allow: %s)' % (name, first(allowed)),
                       name=name)


def judge_import(name, level, package):
    # -> what to raise, or None. A package of the user's project may import its own parts.
    if level:
        return None if package else ImportError('relative import of %r is not allowed' % name,
                                                name=name)
    return None if is_allowed(name) or is_own(name) else refusal(name)


def judge_submodules(name, fromlist):
    # "from a import b" where b is a module is an import of a.b; known only afterwards.
    for part in fromlist or ():
        full = '%s.%s' % (name, part)
        if full in sys.modules and not is_allowed(full):
            return refusal(full)
    return None


def guard_imports():
    original = builtins.__import__

    def __import__(name, globals=None, locals=None, fromlist=(), level=0):
        caller = sys._getframe(1)
        users = isinstance(name, str) and is_users(caller)
        package = caller.f_globals.get('__package__')
        error = judge_import(name, level, package) if users else None
        if error:
            raise error
        module = original(name, globals, locals, fromlist, level)
        error = judge_submodules(name, fromlist) if users and STRICT else None
        if error:
            raise error
        if 'importlib' in sys.modules:
            guard_importlib(sys.modules['importlib'])
        return module

    builtins.__import__ = __import__


def guard_importlib(importlib):
    original = getattr(importlib, 'import_module', None)
    if original is None or getattr(original, 'is_guard', False):
        return

    def import_module(name, package=None):
        error = None
        if isinstance(name, str) and is_users(sys._getframe(1)):
            error = judge_import(name.lstrip('.'), name.startswith('.'), package)
        if error:
            raise error
        return original(name, package)

    import_module.is_guard = True
    import_module.__doc__ = original.__doc__
    importlib.import_module = import_module

