# as: root user
"""Boxes that stay, over nsbox rpc: cells, calls, files, interrupts, deaths, the end."""

import base64
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from host import become_reaper, descendants, kill_leftovers, leftovers  # noqa: E402
from rpcclient import Rpc, frame, text_of, wait_until  # noqa: E402
from tap import run_tests  # noqa: E402

LIFE = 120000


def nothing_is_left(tap, name):
    left = leftovers(5)
    if not tap.equal(left, [], name):
        kill_leftovers()


def opened(rpc, **keys):
    return rpc.result("open", language="python", timeout_ms=LIFE, **keys)["box"]


def cell(rpc, box, code, **keys):
    return rpc.result("execute", box=box, code=code, **keys)


def reply(rpc, box, call, **keys):
    rpc.write(frame({"op": "reply", "box": box, "call": call, **keys}))


def event(rpc, name):
    """The next event of this name; other events are passed."""
    while True:
        got = rpc.receive()
        assert got is not None and "event" in got, f"no event {name} but {got}"
        if got["event"] == name:
            return got


def a_box_keeps_its_state(tap):
    with Rpc() as rpc:
        first = rpc.result("open", language="python", timeout_ms=LIFE)
        tap.equal((first["box"], first["language"]), ("b1", "python"), "open gives a name", first)
        got = cell(rpc, "b1", "x = 41\nprint('é')\nx + 1")
        tap.equal((got["status"], got["value"], got["repr"]), ("ok", 42, "42"), "the value of a cell")
        tap.equal([(e["id"], e["event"], e["text"]) for e in rpc.events],
                  [(rpc.last_id, "stdout", "é\n")], "what it printed, before the answer")
        tap.equal(cell(rpc, "b1", "x")["value"], 41, "the next cell sees it")
        other = opened(rpc)
        tap.equal((other, cell(rpc, other, "x")["error"]["name"]), ("b2", "NameError"),
                  "another box does not")
        tap.equal(rpc.result("set", box="b1", values={"y": {"$t": "tuple", "v": [1, "a"]}})["status"], "ok",
                  "set")
        tap.equal(cell(rpc, "b1", "y")["value"], {"$t": "tuple", "v": [1, "a"]}, "typed values, both ways")
        tap.equal(rpc.result("close", box="b1")["schema"], "nsbox.result/1", "close gives the record")
        tap.equal(rpc.error("execute", box="b1", code="1")["message"], "there is no box 'b1'", "it is gone")
        tap.equal(cell(rpc, other, "7")["value"], 7, "the other one is not")
    nothing_is_left(tap, "no process is left")


def boxes_work_side_by_side(tap):
    with Rpc() as rpc:
        ids = [rpc.send("open", language="python", timeout_ms=LIFE) for _ in range(4)]
        boxes = [a["result"]["box"] for a in rpc.answers(ids).values()]
        busy = rpc.send("execute", box=boxes[0], code="while True: pass")
        waits = rpc.send("execute", box=boxes[0], code="'after'")
        others = {rpc.send("execute", box=b, code=f"{i}"): i for i, b in enumerate(boxes[1:])}
        run = rpc.send("run", argv=["echo", "x"])
        found = rpc.answers([*others, run])
        tap.equal([found[n]["result"].get("value") for n in others], list(others.values()),
                  "one that is busy holds up no other")
        tap.equal(found[run]["result"]["stdout"], "x\n", "nor a run")
        error = rpc.error("cancel", target=waits)
        tap.equal(error and (error["code"], error["message"]),
                  ("busy", f"request {waits} waits behind others in its box"), "what waits is not taken back")
        rpc.write(frame({"id": waits, "op": "hello"}))
        tap.equal(rpc.receive()["id"], None, "its id is in flight")
        tap.equal(rpc.result("cancel", target=busy)["found"], True, "what is in hand is interrupted")
        found = rpc.answers([busy, waits])
        tap.equal((found[busy]["result"]["status"], found[waits]["result"]["value"]), ("interrupted", "after"),
                  "then the next one is done")


def functions_of_the_host_are_called(tap):
    with Rpc() as rpc:
        box = opened(rpc)
        rpc.result("tools", box=box, tools=[{"name": "f", "doc": "of the host"}])
        number = rpc.send("execute", box=box, code="f(1, k='a') + 1")
        call = event(rpc, "call")
        tap.equal((call["id"], call["name"], call["args"], call["kwargs"]), (number, "f", [1], {"k": "a"}),
                  "a call is an event of its request")
        reply(rpc, box, call["call"], value=41)
        tap.equal(rpc.answers([number])[number]["result"]["value"], 42, "the reply is what it returns")
        number = rpc.send("execute", box=box, code="f()")
        reply(rpc, box, event(rpc, "call")["call"], error={"name": "ValueError", "value": "no"})
        error = rpc.answers([number])[number]["result"]["error"]
        tap.equal((error["name"], error["value"]), ("ValueError", "no"), "or raises")
        number = rpc.send("execute", box=box, code="f()")
        reply(rpc, box, event(rpc, "call")["call"])
        error = rpc.answers([number])[number]["result"]["error"]
        tap.equal((error["name"], error["value"]), ("RuntimeError", "a reply has either 'value' or 'error'"),
                  "a reply that is none raises too: nothing waits for ever")
        reply(rpc, box, 12345, value=1)
        reply(rpc, "b99", 1, value=1)
        tap.equal(rpc.call("hello")["ok"], True, "a reply that nobody waits for has no answer")
        number = rpc.send("execute", box=box, code="input('name? ')", stdin=True)
        call = event(rpc, "call")
        reply(rpc, box, call["call"], value="nsbox")
        tap.equal(rpc.answers([number])[number]["result"]["value"], "nsbox", "input() asks as well", call)


def files_and_commands_are_in_the_same_box(tap):
    data = bytes(range(256)) * 1000
    with Rpc() as rpc:
        box = opened(rpc)
        tap.equal(rpc.result("put", box=box, path="/workspace/a b", data=base64.b64encode(data).decode(),
                             mode=0o600)["status"], "ok", "put")
        got = rpc.result("get", box=box, path="/workspace/a b")
        tap.equal(base64.b64decode(got["data"]), data, "get")
        got = rpc.result("list", box=box, path="/workspace")
        tap.equal([e["name"] for e in got["entries"]], ["a b"], "list")
        got = rpc.result("exec", box=box, argv=["sh", "-c", "cat; pwd; wc -c < '/workspace/a b'; exit 3"],
                         stdin=base64.b64encode(b"in\n").decode(), cwd="/tmp", env=None)
        tap.equal(got["exit_code"], 3, "exec: its exit code", got)
        tap.equal(text_of([{**e, "data": e["text"]} for e in rpc.events], rpc.last_id, "stdout").split(),
                  [b"in", b"/tmp", b"256000"], "exec: its output")
        tap.equal(cell(rpc, box, "len(open('/workspace/a b', 'rb').read())")["value"], 256000, "a cell sees it")


def wrong_requests_are_refused(tap):
    with Rpc() as rpc:
        box = opened(rpc)
        rows = [
            (("execute", {"box": box, "cod": "1"}), "unknown key 'cod' of \"execute\"", "did you mean 'code'?"),
            (("execute", {"box": box}), "\"execute\" needs 'code': source text", ""),
            (("execute", {"code": "1"}), "\"execute\" needs 'box': the name that open gave", ""),
            (("execute", {"box": "b7", "code": "1"}), "there is no box 'b7'",
             '"open" gives one its name, and "close" takes it'),
            (("execute", {"box": box, "code": {"base64": ""}}), "'code' takes a string, not an object", ""),
            (("set", {"box": box, "values": [1]}), "'values' takes an object, not a list", ""),
            (("tools", {"box": box, "tools": ["f"]}), "'tools' takes a list of objects, not a list", ""),
            (("open", {}), "\"open\" needs 'language': python, javascript or bash; without it the file's suffix says",
             ""),
            (("open", {"language": "pythn"}), "unknown language 'pythn'", "did you mean 'python'?"),
            (("open", {"language": "python", "tier": "static"}), None, None),
            (("open", {"language": "python", "set": {"limits.memory": "1M"}}), None, None),
        ]
        for (op, keys), message, hint in rows:
            error = rpc.error(op, **keys)
            tap.ok(error and (message is None or (error["message"], error["hint"]) == (message, hint)),
                   f"refused: {op} {str(keys)[:60]}", error)
        tap.equal(cell(rpc, box, "1")["value"], 1, "the box goes on")


def a_dead_interpreter_is_told(tap):
    with Rpc() as rpc:
        box = opened(rpc)
        opener = rpc.last_id
        got = cell(rpc, box, "x = 1; import os; os._exit(3)")
        tap.equal((got["status"], got["restarted"]), ("exited", True), "the request has its answer", got)
        got = cell(rpc, box, "x")
        tap.equal(got["error"]["name"], "NameError", "a new one answers the next, without the old state")
        told = [(e["id"], e["box"], e["event"]) for e in rpc.events if e["event"] in ("dead", "ready")]
        tap.equal(told, [(opener, box, "dead"), (opener, box, "ready")],
                  "dead and ready come as events of the opening request")


def a_life_ends(tap):
    with Rpc() as rpc:
        box = rpc.result("open", language="python", timeout_ms=1500)["box"]
        got = cell(rpc, box, "import time; time.sleep(60)")
        tap.ok(got["status"] in ("timed_out", "exited"), "a cell that outlives its box is answered", got)
        wait_until(lambda: rpc.error("execute", box=box, code="1") is not None, "the life is over")
        tap.equal(rpc.error("execute", box=box, code="1")["code"], "busy", "then the box takes nothing more")
        tap.equal(rpc.result("close", box=box)["schema"], "nsbox.result/1", "and can still be closed")


def closing_answers_what_waits(tap):
    with Rpc() as rpc:
        box = opened(rpc)
        ids = [rpc.send("execute", box=box, code="while True: pass") for _ in range(3)]
        close = rpc.send("close", box=box)
        found = rpc.answers([*ids, close])
        tap.equal([found[i]["error"]["message"] for i in ids], ["the box was closed before this was done"] * 3,
                  "each request has one answer")
        tap.equal(found[close]["ok"], True, "and so has close")
        opening = rpc.send("open", language="python", timeout_ms=LIFE)
        rpc.send("cancel", target=opening)
        found = rpc.answers([opening, rpc.last_id])
        tap.equal((found[rpc.last_id]["result"]["found"], found[opening]["error"]["code"]), (True, "busy"),
                  "an opening that is cancelled is answered")
    nothing_is_left(tap, "no process is left")


def a_client_that_does_not_read_makes_cells_wait(tap):
    with Rpc() as rpc:
        box = opened(rpc, set={"limits.stdout": "64M"})
        number = rpc.send("execute", box=box, code="for i in range(2000): print('x' * 9999)")
        # Whether it waits is seen in tests/box/rpc.py; here: nothing is lost.
        got = rpc.answers([number])[number]["result"]
        tap.equal((got["status"], got["stdout_bytes"]), ("ok", 20000000), "20 MB by events")
        tap.equal(sum(len(e["text"]) for e in rpc.events), 20000000, "every byte came")


def the_end_of_the_connection_ends_all(tap):
    for name, end in (("end of input", lambda rpc: rpc.hang_up()), ("SIGTERM", lambda rpc: rpc.proc.terminate()),
                      ("kill -9", lambda rpc: rpc.proc.kill())):
        rpc = Rpc()
        boxes = [opened(rpc) for _ in range(2)]
        rpc.send("execute", box=boxes[0], code="import os\nos.fork()\nwhile True: pass")
        rpc.send("exec", box=boxes[1], argv=["sleep", "100"])
        wait_until(lambda r=rpc: any(n == "sleep" for _, n, _ in descendants(r.pid)), "both are busy")
        end(rpc)
        tap.equal(rpc.status(10), -9 if name == "kill -9" else 0, f"{name}: it ends")
        nothing_is_left(tap, f"{name}: no process is left")
        rpc.end()


become_reaper()
run_tests([
    a_box_keeps_its_state, boxes_work_side_by_side, functions_of_the_host_are_called,
    files_and_commands_are_in_the_same_box, wrong_requests_are_refused, a_dead_interpreter_is_told,
    a_life_ends, closing_answers_what_waits, a_client_that_does_not_read_makes_cells_wait,
    the_end_of_the_connection_ends_all,
])
