"""The library's own client at a service with TLS, tokens and client certificates."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencelock
from fencelock.service.tokens import revoke_tokens
from tests.servers import HOST
from tests.service.company import Certificates, TlsReplica, token_in
from tests.waiting import eventually


class Set:
    def __init__(self, folder: Path) -> None:
        self.made = Certificates(folder)
        self.file = folder / "tokens.toml"
        self.token = token_in(self.file, "billing", lock=["order:*"])
        with self.file.open("a") as more:
            more.write('[certificates."CN=worker"]\nrights = { lock = ["job:*"] }\n')
        options = (*self.made.server("service"), "--client-ca", self.made.ca)
        engine = f"sqlite:///{folder}/locks.db"
        self.replica = TlsReplica(folder / "replica", engine, *options, "--tokens", str(self.file))

    def url(self, token: str = "", **options: str) -> str:
        more = "".join(f"&{key}={value}" for key, value in options.items())
        credentials = f"{token}@" if token else ""
        return f"https://{credentials}{HOST}:{self.replica.port}?ca={self.made.ca}{more}"


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[Set]:
    made = Set(tmp_path)
    with made.replica:
        yield made


def test_a_token(tls: Set) -> None:
    with fencelock.Client(tls.url(tls.token), ttl=30) as client:
        with client.lock("order:42") as lease:
            assert lease.fence > 0
        assert client._context.engine.traits.guarantee == "correctness"  # of the file behind it
        with pytest.raises(fencelock.EngineError, match="lacks the right 'lock'") as refused:
            client.lock("job:1").acquire(timeout=5)
        assert refused.value.outcome == "not applied"
        assert tls.token not in str(refused.value)


def test_a_wrong_token_and_one_that_is_revoked(tls: Set) -> None:
    wrong = tls.token[:-4] + "XXXX"
    with fencelock.Client(tls.url(wrong)) as client:
        with pytest.raises(fencelock.EngineError, match="token") as refused:
            client.lock("order:42").acquire(timeout=5)
        assert wrong not in str(refused.value)
        assert refused.value.outcome == "not applied"
    with fencelock.Client(tls.url(tls.token), ttl=30) as client:
        with client.lock("order:42"):
            pass
        revoke_tokens(tls.file, "billing")
        tls.replica.tell(signal.SIGHUP)

        def is_refused() -> bool:
            try:
                client.lock("order:42").acquire(timeout=5).release()
            except fencelock.EngineError as error:
                return "token" in str(error)
            return False

        eventually(is_refused, "the token to be refused")


def test_a_certificate(tls: Set) -> None:
    certificate, key = tls.made.make("worker", "worker", "DNS:w")
    url = tls.url(cert=certificate, key=key)
    with fencelock.Client(url) as client, client.lock("job:1") as lease:
        assert lease.fence > 0

    async def main() -> None:
        async with fencelock.AsyncClient(url) as client, client.lock("job:1") as lease:
            assert lease.fence > 0
            with pytest.raises(fencelock.EngineError, match="lacks the right 'lock'"):
                await client.lock("order:1").acquire(timeout=5)

    asyncio.run(main())
