"""asyncio: thousands of coroutines, a queue, a subprocess, a socket pair, a timeout.

    nsbox code examples/asyncio_demo.py
"""

import asyncio
import socket


async def worker(queue, results):
    while True:
        number = await queue.get()
        await asyncio.sleep(0)
        results.append(number * number)
        queue.task_done()


async def squares(count):
    queue, results = asyncio.Queue(), []
    workers = [asyncio.create_task(worker(queue, results)) for _ in range(8)]
    for number in range(count):
        queue.put_nowait(number)
    await queue.join()
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return sum(results)


async def child():
    process = await asyncio.create_subprocess_exec(
        "tr", "a-z", "A-Z", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate(b"from a child process")
    return out.decode()


async def echo():
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    theirs.sendall(b"over a socket pair\n")
    line = await reader.readline()
    writer.close()
    theirs.close()
    return line.decode().strip()


async def main():
    print("sum of squares:", await squares(5000))
    print(*await asyncio.gather(child(), echo()), sep="\n")
    try:
        await asyncio.wait_for(asyncio.sleep(30), timeout=0.05)
    except asyncio.TimeoutError:
        print("timed out, as it should")


if __name__ == "__main__":
    asyncio.run(main())
