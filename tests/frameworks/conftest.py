"""These programs use fixed names, so each test has a server of its own."""

import pytest

from tests.servers import RedisFactory


@pytest.fixture
def redis_url(redis_server: RedisFactory) -> str:
    return redis_server().url
