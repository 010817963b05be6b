# What runs in a box that stays: does errands of the host, many at once. Source text for the box's
# interpreter, read by _stay.py and never imported there. errand_next() and errand_said() are
# functions of the host.
#
# Must: answer each errand once with "end", whatever its command does; keep no command waiting for
# another. Mustn't: hold more of an output than was asked for.
import base64, errno, os, select, signal, stat, subprocess, threading, time

CHUNK = 8 << 20         # bytes in a message; as base64 it fits into a frame
PIPE_READS = 64         # enough for what a pipe holds; who was left behind may never end
HOME = os.getcwd()
held = {}               # number of an errand -> the descriptor of its input, or of its file
running = {}            # number of an errand -> its process
drains = select.epoll()


def unpack(text):
    return base64.b64decode(text)


def place(path):
    return os.path.join(os.fsencode(HOME), unpack(path))


def failed(number, error, what=""):
    errand_said(number, "end", {"errno": error.errno or errno.EIO, "what": what})


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
            new = members(root) - seen
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
                if not os.read(fd, 1 << 18):
                    os.close(fd)
            except BlockingIOError:
                pass
            except OSError:
                os.close(fd)


def finish(streams):
    """What was written before the end; then the pipes are for those who were left behind."""
    for one in streams:
        for _ in range(PIPE_READS):
            if one.over or not one.read():
                break
        if not one.over:
            fd = os.dup(one.fd)
            drains.register(fd, select.POLLIN)


def do_exec(number, order):
    stdin = held.pop(number, None)
    if stdin is not None:
        os.lseek(stdin, 0, os.SEEK_SET)
    env = dict(os.environb)
    env.update((unpack(k), unpack(v)) for k, v in order["env"])
    cwd = place(order["cwd"])
    try:
        os.stat(os.path.join(cwd, b"."))    # Popen's error does not tell a folder from a command
    except OSError as error:
        return failed(number, error, "cwd")
    merged = order["merged"]
    try:
        process = subprocess.Popen(
            [unpack(word) for word in order["argv"]], env=env, cwd=cwd, start_new_session=True,
            stdin=subprocess.DEVNULL if stdin is None else stdin, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE)
    except OSError as error:
        return failed(number, error, "command")
    except ValueError:      # a NUL in a word
        return failed(number, OSError(errno.EINVAL, ""), "command")
    finally:
        if stdin is not None:
            os.close(stdin)
    running[number] = process.pid
    pipes = [process.stdout] if merged else [process.stdout, process.stderr]
    streams = [Stream(pipe, order["room"]) for pipe in pipes]
    try:
        why = watch(process, streams, order)
    finally:
        del running[number]     # before its number can be another's
        process.wait()
    finish(streams)
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
    if number not in held:
        held[number] = os.memfd_create("stdin")
    put(held[number], unpack(order["data"]))


def kill(number, order):
    if number in running:
        kill_all(running[number])


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
    except OSError as error:
        return failed(number, error)
    except ValueError:
        return failed(number, OSError(errno.EINVAL, ""))
    errand_said(number, "end", {"code": 0})


def drop(number, order):
    fd = held.pop(number, None)
    if fd is not None:
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
    except OSError as error:
        return failed(number, error)
    except ValueError:
        return failed(number, OSError(errno.EINVAL, ""))
    errand_said(number, "end", {"code": 0})


# --- the loop ------------------------------------------------------------------------------------
AT_ONCE = {"stdin": take_stdin, "kill": kill, "drop": drop}
THREADS = {"exec": do_exec, "write": do_write, "read": do_read}


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
                threading.Thread(target=THREADS[what], args=(number, order), daemon=True).start()


errands()
