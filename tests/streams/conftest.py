"""Tests of streams are coroutines: each runs in an event loop of its own."""

import asyncio
import inspect

import pytest

from reprieve.app.redaction import forget_secrets
from support.failed_messages import close_groups


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine function."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run():
        try:
            await pyfuncitem.obj(**arguments)
        finally:
            await close_groups()

    asyncio.run(run())
    return True


@pytest.fixture(autouse=True)
def _forget_passwords():
    """A password that a URL had is a secret of one test."""
    yield
    forget_secrets("redis")
