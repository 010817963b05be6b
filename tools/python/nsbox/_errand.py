# mypy: ignore-errors
# pyright: basic, reportUndefinedVariable=false, reportOptionalMemberAccess=false
# What runs in a box that stays: does errands of the host, many at once. Source text for the box's
# interpreter, read by _stay.py and never imported there. errand_next() and errand_said() are
# functions of the host.
#
# Must: answer each errand with "end", whatever its command does, and when a thread, a process or a
# descriptor cannot be had; keep no command waiting for another. Mustn't: hold more of an output than
# was asked for; let a command run that was cancelled before it started.
import base64, errno, os, select, signal, stat, subprocess, threading, time

CHUNK = 8 << 20         # bytes in a message; as base64 it fits into a frame
PIPE_READS = 64         # enough for what a pipe holds; who was left behind may never end
HOME = os.getcwd()
NOT_YET, UNWANTED = 0, -1
held = {}               # number of an errand -> the descriptor of its input, or of its file; or why not
running = {}            # number of an errand -> its process, or one of the two
door = threading.Lock() # of running
drains = select.epoll()


def unpack(text):
    return base64.b64decode(text)


def place(path):
    return os.path.join(os.fsencode(HOME), unpack(path))


def failed(number, error, what=""):
    why = getattr(error, "errno", None)
    if why is None:
        why = next((n for kind, n in ((ValueError, errno.EINVAL),   # a NUL in a name
                                      (MemoryError, errno.ENOMEM),
                                      (RuntimeError, errno.EAGAIN)) # no thread could be started
                    if isinstance(error, kind)), errno.EIO)
    errand_said(number, "end", {"errno": why, "what": what})


# --- commands ------------------------------------------------------------------------------------
def members(root):
    """Processes of the session of @root and all that descend from one of it."""
    found = {root}
    table = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue    # it ended meanwhile
        table.append((int(name), int(fields[1]), int(fields[3])))
    size = 0
    while size != len(found):
        size = len(found)
        found.update(pid for pid, parent, session in table if parent in found or session == root)
    return found & {pid for pid, parent, session in table}


def kill_all(root):
    # Whoever is stopped cannot fork away while we look for the next.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        seen = set()
        for _ in range(20):
            try:
                new = members(root) - seen
            except OSError:     # no descriptor to look with: its group at least
                new = {-root} - seen
            for pid in new:
                try:
                    os.kill(pid, number)
                except OSError:
                    pass    # it ended, or is not ours to kill
            if not new:
                break
            seen |= new


class Stream:
    """What a pipe gave: the first @room bytes of it."""

    def __init__(self, file, room):
        self.fd, self.room, self.parts, self.kept = file.fileno(), room, [], 0
        self.over = self.cut = False
        os.set_blocking(self.fd, False)

    def read(self):
        """One piece. False when nothing is there now."""
        try:
            data = os.read(self.fd, 1 << 18)
        except BlockingIOError:
            return False
        if not data:
            self.over = True
            return False
        part = data[:self.room - self.kept]
        self.cut = self.cut or len(part) < len(data)
        if part:
            self.parts.append(part)
            self.kept += len(part)
        return True


def watch(process, streams, order):
    """Read until the process ended; why it was ended by us, or None."""
    poll = select.poll()
    pidfd = os.pidfd_open(process.pid)
    poll.register(pidfd, select.POLLIN)
    for one in streams:
        poll.register(one.fd, select.POLLIN)
    deadline = order["timeout"] and time.monotonic() + order["timeout"]
    why = None
    try:
        while True:
            patience = None if deadline is None or why else \
                max(0, deadline - time.monotonic()) * 1000
            ready = dict(poll.poll(patience))
            for one in streams:
                if one.fd in ready:
                    one.read()
                    if one.over:
                        poll.unregister(one.fd)
            if pidfd in ready:
                return why
            if why is None and deadline is not None and time.monotonic() >= deadline:
                why = "timeout"
                kill_all(process.pid)
            elif why is None and order["strict"] and any(one.cut for one in streams):
                why = "output"
                kill_all(process.pid)
    finally:
        os.close(pidfd)


def drain_forever():
    # What a command left behind may go on printing; nobody waits for that.
    while True:
        for fd, _ in drains.poll():
            try:
                if os.read(fd, 1 << 18):
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            # Closing alone is not enough: while finish() holds the pipe as well, it would be
            # reported under a number that meanwhile is another file's.
            drains.unregister(fd)
            os.close(fd)


def finish(streams):
    """What was written before the end; then the pipes are for those who were left behind."""
    for one in streams:
        for _ in range(PIPE_READS):
            if one.over or not one.read():
                break
        if not one.over:
            try:
                drains.register(os.dup(one.fd), select.POLLIN)
            except OSError:
                pass    # no descriptor: who was left behind has no reader any more


def start(number, order, stdin):
    env = dict(os.environb)
    env.update((unpack(k), unpack(v)) for k, v in order["env"])
    return subprocess.Popen(
        [unpack(word) for word in order["argv"]], env=env, cwd=place(order["cwd"]),
        start_new_session=True, stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT if order["merged"] else subprocess.PIPE)


def follow(number, process, streams, order):
    """Until the end of @process; why it was ended by us, or None."""
    with door:
        unwanted = running[number] == UNWANTED
        running[number] = process.pid
    try:
        if unwanted:
            kill_all(process.pid)
        return watch(process, streams, order)
    except BaseException:
        kill_all(process.pid)
        raise
    finally:
        with door:
            del running[number]     # before its number can be another's
        process.wait()


def do_exec(number, order):
    stdin = held.pop(number, None)
    what = "command"
    try:
        if isinstance(stdin, Exception):
            raise stdin
        if stdin is not None:
            os.lseek(stdin, 0, os.SEEK_SET)
        what = "cwd"
        os.stat(os.path.join(place(order["cwd"]), b"."))    # Popen does not tell folder from command
        what = "command"
        process = start(number, order, stdin)
    except Exception as error:
        with door:
            del running[number]
        return failed(number, error, what)
    finally:
        if isinstance(stdin, int):
            os.close(stdin)
    pipes = [process.stdout] if order["merged"] else [process.stdout, process.stderr]
    streams = [Stream(pipe, order["room"]) for pipe in pipes]
    try:
        why = follow(number, process, streams, order)
        finish(streams)
    finally:
        for pipe in pipes:
            pipe.close()
    for name, one in zip(("stdout", "stderr"), streams):
        data = b"".join(one.parts)
        for at in range(0, len(data), CHUNK):
            errand_said(number, name, data[at:at + CHUNK])
    code = process.returncode
    errand_said(number, "end", {"code": 128 - code if code < 0 else code, "why": why,
                                "cut": any(one.cut for one in streams)})


def take_stdin(number, order):
    try:
        if number not in held:
            held[number] = os.memfd_create("stdin")
        if isinstance(held[number], int):
            put(held[number], unpack(order["data"]))
    except (OSError, MemoryError) as error:
        drop(number, order)
        held[number] = error        # for the command, which is not started then


def kill(number, order):
    with door:
        pid = running.get(number)
        if pid == NOT_YET:
            running[number] = UNWANTED
    if pid:
        kill_all(pid)


# --- files ---------------------------------------------------------------------------------------
def put(fd, data):
    data = memoryview(data)
    while data:
        data = data[os.write(fd, data):]


def open_to_write(path):
    parent = os.path.dirname(path)
    if parent:
        os.makedirs(parent, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK,
                   0o644)


def do_write(number, order):
    try:
        fd = held.pop(number, None)
        if fd is None:
            fd = open_to_write(place(order["path"]))
        try:
            put(fd, unpack(order["data"]))
        except BaseException:
            os.close(fd)
            raise
        if order["more"]:
            held[number] = fd
        else:
            os.close(fd)
    except Exception as error:
        return failed(number, error)
    errand_said(number, "end", {"code": 0})


def drop(number, order):
    fd = held.pop(number, None)
    if isinstance(fd, int):
        os.close(fd)


def read_all(number, path, room):
    # A pipe without a writer would hold us up.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        state = os.fstat(fd)
        if stat.S_ISDIR(state.st_mode):
            raise OSError(errno.EISDIR, "")
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "")
        if state.st_size > room:
            raise OSError(errno.EFBIG, "")
        while True:
            data = os.read(fd, min(CHUNK, room + 1))
            if not data:
                return
            if len(data) > room:
                raise OSError(errno.EFBIG, "")
            room -= len(data)
            errand_said(number, "stdout", data)
    finally:
        os.close(fd)


def do_read(number, order):
    try:
        read_all(number, place(order["path"]), order["room"])
    except Exception as error:
        return failed(number, error)
    errand_said(number, "end", {"code": 0})


# --- the loop ------------------------------------------------------------------------------------
AT_ONCE = {"stdin": take_stdin, "kill": kill, "drop": drop}
THREADS = {"exec": do_exec, "write": do_write, "read": do_read}


def work(what, number, order):
    try:
        THREADS[what](number, order)
    except Exception as error:      # after the start of a command: nobody else answers for it
        failed(number, error, "command")


def begin(what, number, order):
    if what == "exec":
        running[number] = NOT_YET
    try:
        threading.Thread(target=work, args=(what, number, order), daemon=True).start()
    except (RuntimeError, MemoryError) as error:
        running.pop(number, None)
        drop(number, order)
        failed(number, error, "command")


def errands():
    threading.Thread(target=drain_forever, daemon=True).start()
    # `pkill python` is for a program of the user's. Not SIG_IGN: that is inherited.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
        signal.signal(number, lambda number, frame: None)
    while True:
        orders = errand_next()
        if orders is None:
            return
        for order in orders:
            number, what = order["n"], order["do"]
            if what in AT_ONCE:
                AT_ONCE[what](number, order)
            else:
                begin(what, number, order)


errands()
