"""Work with a child that misbehaves, in place of `nsbox rpc`."""

import asyncio
import os
from unittest import mock

import nsbox
from nsbox import _rpc
from tap_unittest import REPO

FAKE = os.path.join(REPO, "tests", "harness", "rpc_fake.py")


def is_alive(pid):
    """Is the process there and no zombie?"""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def with_fake(how, work, silence=60.0):
    """Run the coroutine @work(sandbox) against a child that misbehaves."""
    async def main():
        box = nsbox.AsyncSandbox(binary=FAKE)
        await box.connect()
        try:
            return await asyncio.wait_for(work(box), 60)
        finally:
            await asyncio.wait_for(box.close(), 60)
            assert not is_alive(box.hello["pid"]), "the child outlived its sandbox"
    with mock.patch.dict(os.environ, NSBOX_FAKE=how), \
            mock.patch.object(_rpc.Connection, "silence", silence):
        return asyncio.run(main())
