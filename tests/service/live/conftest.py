"""A browser for each worker, and tabs for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from tests.service.live.browser import Tab, chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser

NewTab = Callable[..., Awaitable[Tab]]

# The browser lives in the event loop of the session. Tests that use it run there, too, so they need
# `pytestmark = pytest.mark.asyncio(loop_scope="session")`.


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One for each worker: workers that share one also see, and pay for, one another's pages."""
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def new_tab(browser: Browser) -> AsyncIterator[NewTab]:
    """Open tabs: `await new_tab(origin, size=NARROW, dark=True)`. The test fails if a page misbehaves."""
    async with AsyncExitStack() as stack:

        async def opened(origin: str, **how: Any) -> Tab:
            return await stack.enter_async_context(Tab.opened(browser, origin, **how))

        yield opened
