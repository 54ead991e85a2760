"""MariaDB for tests: that of `fencelock.servers`."""

from __future__ import annotations

from typing import Protocol

from fencelock.servers.mysql import DATABASE, MysqlServer, make_template
from tests.servers import Setting

__all__ = ["DATABASE", "MysqlServer", "make_template"]


class MysqlFactory(Protocol):
    """The type of the fixture `mysql_server`. Call it to start a private server with these settings."""

    def __call__(self, **settings: Setting) -> MysqlServer: ...
