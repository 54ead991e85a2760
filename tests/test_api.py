"""The public API changes only on purpose: this test compares it with `api.txt`, which a reviewer can read.

After an intended change, run `python -m tests.test_api > tests/api.txt`, and add a line to CHANGELOG.md.
"""

import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ForwardRef, is_typeddict

import fencelock
from fencelock import client, doctor, guards, observe, testing
from fencelock.core.errors import FencelockError
from fencelock.core.queue import TicketQueue
from fencelock.core.ticket import Place, Share, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine
from fencelock.engines.diagnosis import Clock, Server
from fencelock.guards import etcd, http, objects, proxy, zookeeper
from fencelock.io.contract import IO, Event
from fencelock.primitives.lost import AsyncLost, Lost
from fencelock.servers.process import ServerFailed
from fencelock.testing.client import TestingClient

OPTIONS = {name: getattr(client, name) for name in client.__all__ if name.endswith("Options")}
SNAPSHOT = Path(__file__).parent / "api.txt"
FOR_ENGINES = (Engine, Server, Clock, IO, Event, Url, Ticket, Standing, Place, Share, TicketQueue)
PUBLIC_IN_DOCTOR = ("Check", "ClockOffset", "Latency", "Report")
GUARDS = {
    **{name: getattr(guards, name) for name in guards.__all__},
    **{f"etcd.{cls.__name__}": cls for cls in (etcd.EtcdGuard, etcd.AsyncEtcdGuard)},
    **{f"http.{each.__name__}": each for each in (http.headers, http.remote_lease, http.refusal)},
    **{f"http.{cls.__name__}": cls for cls in (http.WsgiFence, http.AsgiFence)},
    **{f"objects.{cls.__name__}": cls for cls in (objects.ObjectGuard, objects.S3Store)},
    "proxy.FencingProxy": proxy.FencingProxy,
    "zookeeper.ZooKeeperGuard": zookeeper.ZooKeeperGuard,
    "zookeeper.AsyncZooKeeperGuard": zookeeper.AsyncZooKeeperGuard,
}
OPTIONS_TITLE = "the options of clients, for annotations: from fencelock.client import …"
TESTING_TITLE = (
    "for users: from fencelock.testing import …; its clients can do this, and all that clients can"
)
TOOLS = (ServerFailed,)
"""Errors of `fencelock torture`, which starts servers. No program that locks can meet them."""
WIDTH = 100
WITH = ("__enter__", "__exit__", "__aenter__", "__aexit__")


def integrations() -> dict[str, Any]:
    """Imported only here: each worker of a run imports this file, and the frameworks are slow to import."""
    from fencelock.integrations import apscheduler, celery, django, fastapi, sqlalchemy, starlette

    return {
        "apscheduler.OnceExecutor": apscheduler.OnceExecutor,
        "celery.ElectedBeat": celery.ElectedBeat,
        "celery.locked_task": celery.locked_task,
        "django.opened": django.opened,
        "fastapi.held": fastapi.held,
        "sqlalchemy.fence_session": sqlalchemy.fence_session,
        "starlette.answer_errors": starlette.answer_errors,
    }


def sections() -> dict[str, dict[str, Any]]:
    """Every public name, by whom it is for and where it is imported from. The site has a page for each."""
    users = {name: getattr(fencelock, name) for name in fencelock.__all__}
    reached = {cls.__name__: cls for cls in (Lost, AsyncLost)}  # as `lease.lost`
    return {
        "for users: import fencelock": dict(sorted({**users, **reached}.items())),
        OPTIONS_TITLE: OPTIONS,
        "for users: from fencelock.guards import …": GUARDS,
        "for users: from fencelock.integrations import …": integrations(),
        "for users: from fencelock.observe import …": {
            name: getattr(observe, name) for name in observe.__all__
        },
        "for users: from fencelock.doctor import …": {
            name: getattr(doctor, name) for name in PUBLIC_IN_DOCTOR
        },
        TESTING_TITLE: {"TestingClient": TestingClient, "Clock": testing.Clock},
        "for writers of engines: docs/engines/writing-your-own.md": {
            f"{cls.__module__}.{cls.__name__}": cls for cls in FOR_ENGINES
        },
    }


def describe() -> str:
    """The whole public API: for users, the tree of errors, for authors of engines."""
    parts: list[list[str]] = []
    for title, things in sections().items():
        parts += [[f"# {title}"], *(_describe(name, thing) for name, thing in things.items())]
        if title == OPTIONS_TITLE:
            parts.append(list(error_tree()))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _describe(name: str, thing: Any) -> list[str]:
    if not inspect.isclass(thing):
        return [called(f"def {name}", thing)]
    if is_typeddict(thing):
        fields = inspect.get_annotations(thing).items()
        return [
            f"options {name}",
            *(f"    {option}: {plain(kind)!r}" for option, kind in fields),
        ]
    if issubclass(thing, Enum):
        return [f"enum {name}", *(f"    {member.name} = {member.value!r}" for member in thing)]
    head = called(f"class {name}", thing) if made_by_users(thing) else f"class {name}"
    lines = sorted(members(thing), key=lambda line: line.split("def ")[-1])
    return [head, *("    " + line.replace("\n", "\n    ") for line in lines)]


def made_by_users(cls: type) -> bool:
    """Locks and leases come from a client, so their constructors are not public."""
    if cls.__module__.startswith(("fencelock.guards", "fencelock.integrations")):
        return True
    if issubclass(cls, Warning):
        return False
    return issubclass(
        cls, fencelock.Client | fencelock.AsyncClient | Exception | tuple
    ) or is_dataclass(cls)


def members(cls: type) -> Iterator[str]:
    """The attributes and methods of our own classes, and the methods for `with`."""
    fields = inspect.signature(cls).parameters if made_by_users(cls) else {}
    ours = [base for base in cls.__mro__ if _is_ours(base)]
    for base in ours:
        for name, annotation in inspect.get_annotations(base).items():
            if name not in fields and not name.startswith("_"):
                yield f"{name}: {plain(annotation)!r}"
    for name in {name for base in ours for name in vars(base)}:
        member = inspect.getattr_static(cls, name)
        if name in fields or (name.startswith("_") and name not in WITH):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield f"{name}: {plain(inspect.signature(member.fget).return_annotation)!r}"
        elif isinstance(member, classmethod):
            yield called(f"classmethod def {name}", member.__func__)
        elif inspect.isfunction(member):
            kind = "async def" if inspect.iscoroutinefunction(member) else "def"
            yield called(f"{kind} {name}", member)


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("fencelock.")


class _Text:
    """Its `repr` is its text, without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def plain(annotation: Any) -> Any:
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    return _Text(annotation) if isinstance(annotation, str) else annotation


def called(head: str, function: Callable[..., Any]) -> str:
    """A signature as in source code: in one line, or with one line per parameter."""
    signature = inspect.signature(function)
    given = signature.parameters.values()
    parameters = [
        # What `self` is declared as says where the code stands, not how to call it.
        each.replace(annotation=each.empty if each.name == "self" else plain(each.annotation))
        for each in given
    ]
    signature = signature.replace(
        parameters=parameters, return_annotation=plain(signature.return_annotation)
    )
    line = head + str(signature)
    if len(line) <= WIDTH:
        return line
    rows = [str(each) for each in parameters]
    kinds = [each.kind for each in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        rows.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    inner = "".join(f"    {row},\n" for row in rows)
    return f"{head}(\n{inner}){str(signature).rpartition(')')[2]}"


def error_tree(cls: type[FencelockError] = FencelockError, depth: int = 0) -> Iterator[str]:
    if depth == 0:
        yield "errors"
    others = [base.__name__ for base in cls.__bases__ if not issubclass(base, FencelockError)]
    also = f" (also {', '.join(others)})" if depth and others else ""
    yield "    " * (depth + 1) + cls.__name__ + also
    children = [child for child in cls.__subclasses__() if _is_ours(child) and child not in TOOLS]
    for child in sorted(children, key=lambda child: child.__name__):
        yield from error_tree(child, depth + 1)


def test_the_public_face_is_what_the_snapshot_says() -> None:
    assert describe() == SNAPSHOT.read_text(), (
        "the public API changed: if that is meant, run `python -m tests.test_api > tests/api.txt`"
    )


def test_every_error_is_public() -> None:
    tree = {line.split()[0] for line in error_tree()} - {"errors"}
    assert tree == {name for name in fencelock.__all__ if _is_error(getattr(fencelock, name))}


def _is_error(thing: Any) -> bool:
    return (
        inspect.isclass(thing) and issubclass(thing, Exception) and not issubclass(thing, Warning)
    )


def test_everything_public_has_a_docstring() -> None:
    public = {name: getattr(fencelock, name) for name in fencelock.__all__}
    for name, thing in {**public, **GUARDS, **integrations()}.items():
        assert inspect.getdoc(thing), name
        for member, function in inspect.getmembers(thing, inspect.isfunction):
            if not member.startswith("_") and function.__module__.startswith("fencelock."):
                assert inspect.getdoc(function), f"{name}.{member}"


def test_errors_travel_between_processes() -> None:
    """An error that can't be pickled makes a multiprocessing.Pool wait for ever."""
    told = {
        "reason": "expired",
        "outcome": "unknown",
        "given": 33,
        "newest": 34,
        "transaction": "f00d",
    }
    for name in fencelock.__all__:
        cls = getattr(fencelock, name)
        if _is_error(cls):
            wanted = inspect.signature(cls).parameters
            more: dict[str, Any] = {key: told[key] for key in wanted.keys() & told.keys()}
            if "message" in wanted and "name" in wanted:
                more["name"] = "order:42"
            error = cls("what happened", **more)
            error.add_note("besides")
            copy = pickle.loads(pickle.dumps(error))
            assert type(copy) is cls
            assert str(copy) == str(error)
            assert vars(copy) == vars(error)


if __name__ == "__main__":
    print(describe(), end="")
