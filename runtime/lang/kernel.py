# The interpreter that stays: runs one cell after another. Loaded by boot.py, in its
# namespace, in the box, as the payload. With the other kernel_*.py it speaks with the library by descriptor 3: frames of 4 bytes length
# (big-endian) and JSON, one request at a time.
# Must: turn whatever a cell does into its event "done", or die; answer on the thread
# that called; leave no frame of ours in a traceback.
# Mustn't: run user code, not even a repr(), outside of a Cell: only there it can be
# interrupted, and a copy made by fork() is told from us.
import _ast, _collections, _signal, _thread, fcntl, linecache, os, select
from json import JSONEncoder, loads

# A cell may put others into their place: all that follows has these.
globals().update({name: what for name, what in vars(builtins).items()
                  if not name.startswith('_') and name not in globals()})

FRAME_MAX = 64 << 20
AWAIT = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
FUTURES = 0x1FE2000 | 0x1000000     # every "from __future__" of 3.10 to 3.14
SOURCES_MAX = 32 << 20              # of cells whose lines tracebacks can show
TRANSFORMERS = []                   # (tree, _ast) -> tree; a client's, put here by a cell
dumps = lambda value, **how: JSONEncoder(**how).encode(value)
encode_frame = JSONEncoder(separators=(',', ':'), allow_nan=False).encode


class Now:
    # What is going on. Of one thread, but `child`.
    id = None           # of the request in hand
    running = False     # user code may be interrupted
    child = False       # this is a copy made by fork()
    shield = 0          # our own work, which KeyboardInterrupt would spoil
    late = False        # one came meanwhile
    count = extra = 0   # cells
    flags = 0           # of "from __future__", for later cells
    stdin = False
    next_call = 0
    sources = _collections.deque()  # names of cells and about what they take, the oldest first
    sources_size = 0
    loop = None         # of asyncio, once a cell awaited


now = Now()
ALL_SIGNALS = _signal.valid_signals()
getpid, read, write = os.getpid, os.read, os.write
PID = getpid()
MAIN_THREAD = _thread.get_ident()


class FinalAnswer(BaseException):
    """Ends the cell with a value; no Exception, so that user code lets it pass."""


# ------------------------------------------------------------------ interrupts

def on_interrupt(number, frame):
    if now.child or getpid() != PID:
        raise KeyboardInterrupt
    flush_streams()     # a cell that goes on is killed soon
    if now.shield:
        now.late = True
    elif now.running:
        raise KeyboardInterrupt


class Shield:
    """Holds KeyboardInterrupt back. Handlers run on the main thread alone."""

    def __enter__(self):
        self.on = _thread.get_ident() == MAIN_THREAD
        now.shield += self.on

    def __exit__(self, *error):
        now.shield -= self.on
        if self.on and not now.shield and now.late:
            now.late = False
            if now.running:
                raise KeyboardInterrupt


class Masked:
    """Holds all signals back: an alarm that a cell has set may raise anything, anywhere."""

    def __enter__(self):
        self.old = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
        try:
            _signal.pthread_sigmask(_signal.SIG_BLOCK, ALL_SIGNALS)
        except BaseException:   # of a handler: the call has done its work
            _signal.pthread_sigmask(_signal.SIG_SETMASK, self.old)
            raise

    def __exit__(self, *error):
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self.old)


# ---------------------------------------------------------------------- frames

def move_channel():
    global CHANNEL, SAVED
    CHANNEL = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(3)
    SAVED = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in range(3)]


def refuse_child(what):
    if now.child or getpid() != PID:
        raise RuntimeError('%s works in the process of the kernel alone, not in a copy '
                           'made by fork()' % what)


write_lock = _thread.allocate_lock()


def send(message):
    data = encode_frame(message).encode('ascii')
    if len(data) > FRAME_MAX:
        raise Untransferable('the message is too large: %d bytes' % len(data))
    data = memoryview(len(data).to_bytes(4, 'big') + data)
    with Shield(), write_lock:
        if now.child or getpid() != PID:
            return
        while data:
            data = data[write(CHANNEL, data):]


class Inbox:
    """Frames from the library. Whoever waits reads, for all others as well."""

    def __init__(self):
        self.buffer = bytearray()
        self.lock = _thread.allocate_lock()
        self.has_reader = False
        self.waiting = {}       # call, or None for requests -> [lock, frames]
        self.poll = select.poll()
        self.poll.register(CHANNEL, select.POLLIN)

    def frame(self):
        while True:
            size = int.from_bytes(self.buffer[:4], 'big') + 4
            if len(self.buffer) >= max(size, 5):
                frame = bytes(self.buffer[4:size])
                del self.buffer[:size]
                return loads(frame)
            self.poll.poll()
            with Masked():      # what is read is kept
                data = read(CHANNEL, 1 << 20)
                if not data:
                    os._exit(0)     # the library is gone
                self.buffer += data

    def deliver(self, frame):
        key = frame.get('call')
        entry = self.waiting.get(key)
        if entry:
            entry[1].append(frame)
            wake(entry)
        elif key is None:
            raise SystemError('a request while one is in hand')

    def elect(self):
        # One of those who wait shall read.
        self.has_reader = False
        for entry in self.waiting.values():
            if not entry[1]:
                wake(entry)
                return

    def expect(self, key):
        # Before the question is sent: whoever reads may have its answer before we wait.
        entry = [_thread.allocate_lock(), []]
        entry[0].acquire()
        with Shield(), self.lock:
            self.waiting[key] = entry

    def forget(self, key):
        with Shield(), self.lock:
            del self.waiting[key]
            if not self.has_reader:
                self.elect()

    def wait(self, key):
        if key not in self.waiting:
            self.expect(key)
        entry = self.waiting[key]
        reads = False
        try:
            while not entry[1]:
                with Shield(), self.lock:
                    if not self.has_reader:
                        reads = self.has_reader = True
                if not reads:
                    entry[0].acquire()
                    continue
                frame = self.frame()
                with Shield(), self.lock:
                    self.deliver(frame)
            return entry[1][0]
        finally:
            with Shield(), self.lock:
                del self.waiting[key]
                if reads:
                    self.elect()


def wake(entry):
    if entry[0].locked():
        entry[0].release()


# -------------------------------------------------------------- calls of the host

def next_call():
    with Shield(), inbox.lock:
        now.next_call += 1
        return now.next_call


def call_host(name, args, kwargs):
    refuse_child(name + '()')
    if now.id is None:
        raise RuntimeError('%s() can be called only while a cell runs' % name)
    message = {'id': now.id, 'event': 'call', 'name': name,
               'args': to_json(list(args), strict=True),
               'kwargs': {k: to_json(v, strict=True) for k, v in kwargs.items()}}
    call = message['call'] = next_call()
    flush_streams()
    inbox.expect(call)
    try:
        send(message)
    except BaseException:
        inbox.forget(call)
        raise
    answer = inbox.wait(call)
    if answer.get('error') is not None:
        error = answer['error']
        raise exception_of(str(error.get('name')), str(error.get('value')))
    return decode(answer.get('value'))


def make_tool(spec):
    name, is_final = spec['name'], bool(spec.get('final'))
    if not name.isidentifier():
        raise ValueError('%r is no name of a function' % name)

    def tool(*args, **kwargs):
        value = call_host(name, args, kwargs)
        if is_final:
            raise FinalAnswer(value)
        return value

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = spec.get('doc')
    tool.__module__ = '__main__'
    return tool


def ask(prompt=''):
    """Read a line from whoever runs this cell."""
    if not now.stdin or now.child:
        return plain_input(prompt)
    return call_host('input', (str(prompt),), {})


# ----------------------------------------------------------------------- streams

def flush_streams():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except Exception:
            pass    # closed, replaced, or its descriptor is gone: nothing to keep


def mend_streams():
    # A cell that closed its output has not closed that of the next one.
    for fd, saved in enumerate(SAVED):
        try:
            os.fstat(fd)
        except OSError:
            os.dup2(saved, fd)
    for fd, name in ((1, 'stdout'), (2, 'stderr')):
        stream = getattr(sys, name)
        try:
            if stream is not None and not stream.closed:
                continue
        except Exception:
            continue    # something of the user's
        stream = open(fd, 'w', encoding='utf-8', errors='backslashreplace', buffering=1,
                      closefd=False)
        setattr(sys, name, stream)
        setattr(sys, '__%s__' % name, stream)


# ------------------------------------------------------------------------- cells

def run_code(code):
    value = eval(code, MAIN)
    if code.co_flags & 0x80:    # CO_COROUTINE: it awaits
        return run_awaiting(value)
    return value


def run_awaiting(coroutine):
    import asyncio
    if now.loop is None or now.loop.is_closed():
        now.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(now.loop)
    task = now.loop.create_task(coroutine)
    try:
        return now.loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()
            try:
                now.loop.run_until_complete(task)
            except BaseException:
                pass    # told by the first one
        raise


def ends_quietly(source, node):
    # "x;" shows nothing, as in notebooks.
    line = source.split('\n')[node.end_lineno - 1].encode('utf-8', 'surrogatepass')
    return line[node.end_col_offset:].lstrip().startswith(b';')


def judge_cell(tree):
    # imports.allow is set: before a line of the cell runs (check.py).
    refused, word, sentence = judge(find_imports(tree))
    if word != 'ok':
        raise ImportError(sentence)


def run_source(source, name):
    tree = parse_cell(source, name)
    if CHECK:
        judge_cell(tree)
    for transform in TRANSFORMERS:
        tree = transform(tree, _ast)
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        node = tree.body.pop()
        if not ends_quietly(source, node):
            last = compile(_ast.Expression(node.value), name, 'eval', AWAIT | now.flags, True)
        else:
            tree.body.append(node)
    if tree.body or last is None:
        code = compile(tree, name, 'exec', AWAIT | now.flags, True)
        now.flags |= code.co_flags & FUTURES
        run_code(code)
    return None if last is None else run_code(last)


class Cell:
    """One execution of user code: its value or its error, whatever happens."""

    def __init__(self, run):
        self.value, self.error, self.done = None, None, {}
        try:
            now.running = True
            try:
                self.value = run(self)
            finally:
                now.running = False
        except BaseException as error:
            now.running = False
            self.error = error
        if now.child or getpid() != PID:
            leave_child(self.error)
        now.late = False

    def result(self):
        error = self.error
        if error is None:
            return dict({'status': 'ok'}, **self.done)
        if isinstance(error, FinalAnswer):
            value = error.args[0]
            text = guarded(lambda: safe_repr(value), '<no repr>')
            return {'status': 'final', 'repr': text,
                    'value': guarded(lambda: to_json(value), None)}
        done = {'status': 'error', 'error': guarded(lambda: describe_error(error), {
            'name': type(error).__name__, 'value': '', 'traceback': []})}
        if isinstance(error, KeyboardInterrupt):
            done['status'] = 'interrupted'
        elif isinstance(error, SystemExit):
            done.update(status='exited', exit_code=exit_code_of(error))
        return done


def guarded(work, otherwise):
    # What is asked of a value or an error of the user's runs code of his as well.
    cell = Cell(lambda cell: cell.done.update(made=work()))
    return otherwise if cell.error is not None else cell.done['made']


def leave_child(error):
    # A copy made by fork() that came to the end of the cell ends like a program.
    code = 0
    if isinstance(error, SystemExit):
        code = exit_code_of(error)
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    elif error is not None:
        code = 1
        try:
            sys.stderr.write('\n'.join(describe_error(error)['traceback']) + '\n')
        except Exception:
            pass
    flush_streams()
    os._exit(code)


class Environment:
    """os.environ with what one cell wants on top."""

    def __init__(self, wanted):
        self.old = {k: os.environ.get(k) for k in wanted}
        os.environ.update(wanted)

    def restore(self):
        for name, value in self.old.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def keep_source(name, source):
    if not isinstance(linecache.cache, dict):
        linecache.cache = {}
    lines = (source + '\n').splitlines(True)
    linecache.cache[name] = (len(source), None, lines, name)
    now.sources.append((name, 2 * len(source) + 64 * len(lines) + 512))
    now.sources_size += now.sources[-1][1]
    while now.sources_size > SOURCES_MAX and len(now.sources) > 1:
        oldest, size = now.sources.popleft()
        now.sources_size -= size
        linecache.cache.pop(oldest, None)


def execute(request):
    source, store = request['code'], request.get('store', True)
    if store:
        now.count += 1
        now.extra = 0
        name = '<cell %d>' % now.count
    else:
        now.extra += 1
        name = '<cell %d+%d>' % (now.count, now.extra)
    keep_source(name, source)
    now.stdin = bool(request.get('stdin'))

    def run(cell):
        value = run_source(source, name)
        if value is not None:
            if store:
                builtins._ = value
            text = safe_repr(value)
            cell.done = {'repr': text, 'value': to_json(value),
                         'mime': rich_forms(value, text) or None}
        show_figures(value)

    environment = Environment(request.get('env') or {})
    try:
        done = Cell(run).result()
    finally:
        environment.restore()
    return dict(done, execution_count=now.count)


def set_values(request):
    def run(cell):
        MAIN.update({k: decode(v) for k, v in request['values'].items()})
    return Cell(run).result()


def set_tools(request):
    tools = {spec['name']: make_tool(spec) for spec in request['tools']}
    MAIN.update(tools)
    return {'status': 'ok'}


# -------------------------------------------------------------------------- loop

class Finder:
    # Notices imports that something of ours completes.
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != 'matplotlib.pyplot':
            return None
        LATE_TODO.setdefault(name, show_pyplot)
        return complete_import(cls, name, path, target)


def make_cells_main():
    global MAIN, plain_input
    load_late()
    main = make_main()
    sys.modules['__main__'].__loader__ = sys.modules['_frozen_importlib'].BuiltinImporter
    for name in ('__file__', '__cached__'):
        main.pop(name, None)
    sys.meta_path.insert(0, Finder)
    plain_input = builtins.input
    ask.__name__ = ask.__qualname__ = 'input'
    builtins.input = ask
    builtins.display = display
    builtins.__nsbox_shell__ = shell
    builtins.__nsbox_lines__ = shell_lines
    builtins.__nsbox_transformers__ = TRANSFORMERS
    MAIN = main


def forget_channel():
    now.child = True
    try:
        os.close(CHANNEL)
    except OSError:
        pass


# settle: an interrupt that is pending is taken before the answer, while no cell runs.
OPS = {'execute': execute, 'set': set_values, 'tools': set_tools, 'settle': lambda request: {'status': 'ok'}}


def answer(request):
    try:
        done = OPS[request['op']](request)
    except Exception as error:      # the request itself: a tool's name, a tag
        done = {'status': 'error', 'error': describe_error(error)}
    with Masked():
        tell(request, done)


def tell(request, done):
    flush_streams()
    mend_streams()
    base = {'id': request['id'], 'event': 'done', 'status': 'ok', 'execution_count': now.count,
            'repr': None, 'value': None, 'mime': None, 'error': None, 'exit_code': None}
    try:
        send(dict(base, **done))
    except (Untransferable, MemoryError):
        lost = {'type': 'object', 'repr': '<the value is too large>'}
        send(dict(base, status=done['status'], repr=lost['repr'],
                  value={'$t': 'repr', 'v': lost}))


def next_request():
    # What a handler of the cell's raises now, between two cells, belongs to none.
    while True:
        try:
            return inbox.wait(None)
        except BaseException as error:
            text = '\n'.join(guarded(lambda: describe_error(error)['traceback'], []))
            guarded(lambda: sys.stderr.write(text + '\n'), None)


def serve():
    while True:
        request = next_request()
        now.id = request['id']
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGINT,))
        if _signal.getsignal(_signal.SIGINT) is not on_interrupt:
            _signal.signal(_signal.SIGINT, on_interrupt)
        try:
            answer(request)
        finally:
            now.id = None


def run_kernel():
    global inbox
    move_channel()
    inbox = Inbox()
    os.register_at_fork(after_in_child=forget_channel)
    make_cells_main()
    _signal.signal(_signal.SIGINT, on_interrupt)
    if CHECK:
        load(CHECK)
        guard_imports()
    sys.stdout.reconfigure(line_buffering=True, write_through=False)
    send({'event': 'ready', 'language': 'python',
          'version': '%d.%d.%d' % sys.version_info[:3]})
    serve()
