"""The programs that `fencelock choose` prints. tests/cli/test_choose.py runs them on real engines."""

from __future__ import annotations

from fencelock.cli.choose.rules import Decision

URLS = {
    "sqlite": "sqlite:///locks.db",
    "redis": "redis://localhost",
    "redlock": "redlock://a,b,c,d,e",
    "etcd": "etcd://localhost:2379",
    "zookeeper": "zookeeper://localhost",
    "postgresql": "postgresql://localhost/app",
    "mysql": "mysql://me:secret@localhost/app",
}

_EXTRAS = {
    "redis": "redis",
    "redlock": "redis",
    "etcd": "etcd",
    "zookeeper": "zookeeper",
    "postgresql": "postgres",
    "mysql": "mysql",
}
_PACKAGES = {"sql": "sqlalchemy", "redis": "redis", "objects": "boto3"}

_STORAGE = {"sqlite": "sqlite:///app.db", "mysql": "mysql+pymysql://me:secret@localhost/app"}
_OTHER_STORAGE = "postgresql+psycopg://localhost/app"

_WITHOUT = {
    "nothing": None,
    "statement": """\
import sqlite3

shop = sqlite3.connect("shop.db", isolation_level=None)  # commits by itself
shop.execute("CREATE TABLE IF NOT EXISTS stock (name PRIMARY KEY, pieces INT)")
shop.execute("INSERT OR IGNORE INTO stock VALUES ('shoes', 3)")

buy = "UPDATE stock SET pieces = pieces - 1 WHERE name = ? AND pieces > 0"
sold = shop.execute(buy, ["shoes"]).rowcount == 1
print("sold" if sold else "sold out")
""",
    "key": """\
import sqlite3
import uuid

bank = sqlite3.connect("bank.db", isolation_level=None)
bank.execute("CREATE TABLE IF NOT EXISTS charges (key PRIMARY KEY, cents INT)")

key = str(uuid.uuid4())  # before the first attempt
for attempt in (1, 2):
    charge = "INSERT INTO charges VALUES (?, 1999) ON CONFLICT (key) DO NOTHING"
    added = bank.execute(charge, [key]).rowcount == 1
    print("charged" if added else "charged before: give the same answer")
""",
    "crdt": """\
def add(counts, place, number=1):  # changes only its own number
    return {**counts, place: counts.get(place, 0) + number}

def merge(one, other):  # in any order, again and again
    return {p: max(one.get(p, 0), other.get(p, 0)) for p in one | other}

paris, tokyo = add({}, "paris", 5), add({}, "tokyo", 3)
print(sum(merge(paris, tokyo).values()))
""",
    "version": """\
import sqlite3

wiki = sqlite3.connect("wiki.db", isolation_level=None)
wiki.execute("CREATE TABLE IF NOT EXISTS page (text TEXT, version INTEGER)")
wiki.execute("INSERT INTO page VALUES ('', 1)")

written = 0
while not written:  # another writer was faster: read again
    text, version = wiki.execute("SELECT text, version FROM page").fetchone()
    change = "UPDATE page SET text = ?, version = version + 1 WHERE version = ?"
    written = wiki.execute(change, [text + "a line\\n", version]).rowcount
""",
}

_IMPORTS = {
    "sql": "from fencelock.guards import SqlGuard\nfrom sqlalchemy import create_engine",
    "redis": "import redis\nfrom fencelock.guards import RedisGuard",
    "file": "from fencelock.guards import FencedFile",
    "objects": "import boto3\nfrom fencelock.guards.objects import ObjectGuard, S3Store",
    "http": "from urllib.request import Request, urlopen\nfrom fencelock.guards.http import headers",
}

_PREPARED = {
    "sql": """\
storage = create_engine("{storage}")  # your data
guard = SqlGuard(open=storage.begin)
with storage.begin() as connection:
    guard.create(connection)  # once: a small table of fences
""",
    "redis": """\
storage = redis.Redis.from_url("redis://localhost", decode_responses=True)
guard = RedisGuard(storage, keys=["{order:42}:state"])
""",
    "file": 'guard = FencedFile("report.txt")\n',
    "objects": 'guard = ObjectGuard(S3Store(boto3.client("s3"), "my-bucket"), keys=["report"])\n',
}
"""How a guard is made that the program asks itself."""

_OPENINGS = {
    "lock": """\
with client.lock("order:42", ttl=30) as lease:  # waits for its turn
    # Look whether another holder has done the work meanwhile.
""",
    "guarded lock": """\
with client.lock("order:42", ttl=30, guard=guard) as lease:
    # Read, and do what is slow. Your write is refused if you are overtaken.
""",
    "lock without a guard here": """\
with client.lock("order:42", ttl=30, guard=None) as lease:
    # Read, and do what is slow.
""",
    "election": """\
with client.election("writer", "10.0.0.7:8080", ttl=15) as lease:
    # Elected: write until lease.lost is set.
""",
    "guarded election": """\
with client.election("writer", "10.0.0.7:8080", ttl=15) as lease:
    guard.raise_fence(lease)  # before the first read
    # Elected: write until lease.lost is set, each time with the lease.
""",
}

_WRITTEN = {
    "none": '    print("the work")\n',
    "sql": """\
    with storage.begin() as connection:
        guard.check(connection, lease)  # first: all that follows is fenced
        print("the write")
""",
    "redis": '    guard.set("{order:42}:state", "paid", lease)\n',
    "file": '    guard.write(b"all is well", lease)\n',
    "objects": '    guard.write("report", b"all is well", lease)\n',
    "http": """\
    # The service checks the header, with WsgiFence or AsgiFence.
    where, data = "http://localhost:8000/", b"all is well"
    urlopen(Request(where, data, headers(lease), method="PUT"))
""",
    "outside": """\
    lease.check()  # held, but only at this moment
    print("the request, with an idempotency key")
""",
}


def packages(decision: Decision) -> str | None:
    """What to install for the program, as arguments of pip; None if Python is enough."""
    engine, guard = decision.engine, decision.guard
    if engine is None:
        return None
    extras = {_EXTRAS[engine]} if engine in _EXTRAS else set()
    if guard == "sql" and engine not in _STORAGE:
        extras.add("postgres")  # with the driver
    ours = f"'fencelock[{','.join(sorted(extras))}]'" if extras else "fencelock"
    return f"{ours} {_PACKAGES.get(guard, '')}".rstrip()


def program(decision: Decision) -> str | None:
    """A program for this decision; None if there is nothing to write."""
    engine, guard = decision.engine, decision.guard
    if engine is None:
        return _WITHOUT[decision.step]
    imports = f"import fencelock\n{_IMPORTS.get(guard, '')}".rstrip()
    client = (
        f'url = "{URLS[engine]}"\nclient = fencelock.Client(url, purpose="{decision.purpose}")\n'
    )
    storage = _STORAGE.get(engine, _OTHER_STORAGE)
    prepared = _PREPARED.get(guard, "").replace("{storage}", storage)
    opening = "election" if decision.step == "election" else "lock"
    if guard in _PREPARED:
        opening = f"guarded {opening}"
    elif decision.step == "correctness":
        opening = "lock without a guard here"  # or the client would warn
    return f"{imports}\n\n{client}{prepared}\n{_OPENINGS[opening]}{_WRITTEN[guard]}"
