"""A pool of processes that share an array in /dev/shm.

    nsbox code examples/pool.py
"""

import multiprocessing
from multiprocessing import shared_memory

COUNT = 10_000
CHUNKS = 8


def count_primes(bounds):
    low, high = bounds
    return sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(max(low, 2), high))


def fill(job):
    name, start, end = job
    block = shared_memory.SharedMemory(name=name)
    for i in range(start, end):
        block.buf[i] = i * i % 251
    block.close()


def main():
    step = COUNT // CHUNKS
    chunks = [(i * step, (i + 1) * step) for i in range(CHUNKS)]
    block = shared_memory.SharedMemory(create=True, size=COUNT)
    try:
        with multiprocessing.Pool(4) as pool:
            counts = pool.map(count_primes, chunks)
            pool.map(fill, [(block.name, *chunk) for chunk in chunks])
        print("primes in each chunk:", counts)
        print("primes below", COUNT, "are", sum(counts))
        print("checksum of the shared block:", sum(block.buf[:COUNT]))
    finally:
        block.close()
        block.unlink()


if __name__ == "__main__":
    main()
