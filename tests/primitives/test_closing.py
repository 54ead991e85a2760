"""A client that is closed by another thread while one of its requests is under way."""

from pathlib import Path
from typing import Any

import pytest

from fencelock import Client, FencelockError
from fencelock.core.ticket import Standing


def test_what_is_admitted_after_the_client_was_closed_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    client, other = Client(url), Client(url)
    enter = client._context.engine.enter

    async def closed_meanwhile(*args: Any, **options: Any) -> Standing:
        standing = await enter(*args, **options)
        await client._context.close()
        return standing

    monkeypatch.setattr(client._context.engine, "enter", closed_meanwhile)
    with pytest.raises(FencelockError, match="closed"):
        client.lock("x").acquire()
    lease = other.lock("x").try_acquire()
    assert lease is not None, "nobody keeps it"
    lease.release()
    other.close()
