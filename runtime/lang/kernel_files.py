# Commands and files between cells. Part of kernel.py: run in its namespace, in the box.
# What the box's policy allows is all that these can do.
ENTRIES_MAX = 100000
GET_MAX = 45 << 20      # as base64 it fits into a frame
TERM_GRACE = 1.0        # seconds, less than the library waits for us


def end_command(popen):
    # All of it: the command has a session of its own, so that our signals miss it.
    import signal
    import subprocess
    for number, patience in ((signal.SIGINT, TERM_GRACE), (signal.SIGKILL, 5)):
        try:
            os.killpg(popen.pid, number)
            popen.wait(patience)
            return
        except ProcessLookupError:
            popen.poll()
            return
        except subprocess.TimeoutExpired:
            continue


def start_command(request):
    import subprocess
    stdin = subprocess.DEVNULL if request.get('stdin') is None else subprocess.PIPE
    return subprocess.Popen(request['argv'], stdin=stdin, cwd=request.get('cwd'),
                            env=dict(os.environ, **(request.get('env') or {})),
                            start_new_session=True)


def exit_status(popen):
    code = popen.returncode
    return 128 - code if code is not None and code < 0 else code


def run_command(request):
    held = []

    def run(cell):
        held.append(start_command(request))
        data = request.get('stdin')
        held[0].communicate(None if data is None else unbase64(data))

    cell = Cell(run)
    done = cell.result()
    if done.get('error'):
        done['error']['traceback'] = []     # no line of the user's
    if held:
        if cell.error is not None:
            end_command(held[0])
        done['exit_code'] = exit_status(held[0])
    elif isinstance(cell.error, OSError):
        missing = isinstance(cell.error, FileNotFoundError)
        done['exit_code'] = 127 if missing else 126
    return done


def of_files(work):
    # No line of the user's is in these tracebacks.
    def op(request):
        cell = Cell(lambda cell: cell.done.update(work(request)))
        done = cell.result()
        if done.get('error'):
            done['error']['traceback'] = []
        return done
    return op


def put_file(request):
    data = unbase64(request['data'])
    path = request['path']
    if request.get('parents', True) and os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK,
                 request.get('mode', 0o644))
    with open(fd, 'wb') as file:
        if 'mode' in request:
            os.fchmod(fd, request['mode'])
        file.write(data)
    return {'size': len(data)}


def kind_of(mode):
    import stat
    for kind, is_kind in (('file', stat.S_ISREG), ('directory', stat.S_ISDIR),
                          ('symlink', stat.S_ISLNK)):
        if is_kind(mode):
            return kind
    return 'other'


def get_file(request):
    most = min(request.get('max_bytes') or GET_MAX, GET_MAX)
    # A pipe without a writer would hold us up.
    fd = os.open(request['path'], os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, 'rb') as file:
        state = os.fstat(fd)
        if kind_of(state.st_mode) != 'file':
            raise OSError('%s is no regular file' % request['path'])
        data = file.read(most + 1)
    return {'data': base64(data[:most]), 'size': state.st_size, 'mode': state.st_mode & 0o7777,
            'truncated': len(data) > most}


def list_folder(request):
    entries = []
    with os.scandir(request['path']) as found:
        for entry in found:
            if len(entries) == ENTRIES_MAX:
                return {'entries': entries, 'truncated': True}
            state = entry.stat(follow_symlinks=False)
            entries.append({'name': clean(entry.name), 'type': kind_of(state.st_mode),
                            'size': state.st_size, 'mode': state.st_mode & 0o7777,
                            'mtime_ms': state.st_mtime_ns // 1000000})
    entries.sort(key=lambda e: e['name'])
    return {'entries': entries, 'truncated': False}


OPS.update(exec=run_command, put=of_files(put_file), get=of_files(get_file),
           list=of_files(list_folder))
