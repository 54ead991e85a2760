"""Writes the reference: a page for each group of public names, made from the live package and its docstrings.

What is public is said once, in `tests/test_api.py`. Nothing of this is committed: each build makes it again.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, is_typeddict

from tests.test_api import called, error_tree, made_by_users, members, plain, sections
from website import commands, tables

CLIENTS = ("Client", "AsyncClient", "Traits", "suggest_ttl")
LEASES = ("Lock", "AsyncLock", "Lease", "AsyncLease", "LeaseState", "Lost", "AsyncLost")
LISTINGS = ("Inspection", "Holder", "Waiter", "Owner")
ENTERING = {"__enter__": "with", "__aenter__": "async with"}

Things = Mapping[str, Any]


def write(folder: Path) -> list[tuple[str, str]]:
    """Write all pages of the reference into this folder. Returns their titles and names."""
    folder.mkdir()
    groups = _groups()
    anchors: dict[str, str] = {}
    for title, (_, things) in groups.items():
        for name in things:  # an event may have the name of an error; the error is meant more often
            anchors.setdefault(name, f"{_file(title)}#{name}")
    texts = {title: _page(title, *group, anchors) for title, group in groups.items()}
    texts |= {
        "Command line": commands.page(),
        "Metrics": tables.metrics(),
        "Settings of the service": tables.settings(),
    }
    for title, text in texts.items():
        (folder / _file(title)).write_text(text, "utf-8")
    items = "".join(f"- [{title}]({_file(title)})\n" for title in texts)
    index = f"# Reference\n\nEvery public name, from its docstring.\n\n{items}"
    (folder / "index.md").write_text(index, "utf-8")
    return [(title, _file(title)) for title in texts]


def _file(title: str) -> str:
    return title.lower().replace(" ", "-") + ".md"


def _groups() -> dict[str, tuple[str, Things]]:
    """The pages: how their names are imported, and the names."""
    (users_are, users), *others = sections().items()
    users = dict(users)

    def taken(*names: str) -> Things:
        return {name: users.pop(name) for name in names}

    errors = [name for name, thing in users.items() if _is_error(thing)]
    groups = {
        "Clients": (users_are, taken(*CLIENTS)),
        "Locks and leases": (users_are, taken(*LEASES)),
        "Listings": (users_are, taken(*LISTINGS)),
        "Errors": (users_are, taken(*errors)),
        "More than a lock": (users_are, users),
    }
    for are, things in others:
        groups[_title(are)] = (are, things)
    return groups


def _title(are: str) -> str:
    """The title of a section of the public API: its module, or what it is for."""
    if found := re.search(r"from fencelock\.(\w+) import", are):
        return "Options" if found[1] == "client" else found[1].capitalize()
    return are.partition(":")[0].removeprefix("for ").capitalize()


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


def _page(title: str, are: str, things: Things, anchors: Mapping[str, str]) -> str:
    imported = re.sub(r"(from \S+ )?import [\w…]+", r"`\g<0>`", are.removeprefix("for users: "))
    parts = [f"# {title}", imported[0].upper() + imported[1:]]
    if title == "Errors":
        tree = [line.removeprefix("    ") for line in error_tree()][1:]
        parts.append(_code("\n".join(tree), "text"))
    for name, thing in things.items():
        parts += _described(name, thing)
    return _linked("\n\n".join(parts) + "\n", _file(title), anchors)


def _described(name: str, thing: Any) -> Iterator[str]:
    """A function or a class, with all its members."""
    yield f"## {name} {{ #{name} }}"
    if not inspect.isclass(thing):
        yield _code(called(f"def {name}", thing))
        yield _prose(inspect.getdoc(thing))
        return
    about = _attributes(thing)
    if is_typeddict(thing):
        yield _prose(inspect.getdoc(thing))
        for option, kind in inspect.get_annotations(thing).items():
            yield _attribute(name, option, repr(plain(kind)), about)
    elif issubclass(thing, Enum):
        yield _prose(inspect.getdoc(thing))
        for member in thing:
            yield _attribute(name, member.name, repr(member.value), about)
    else:
        yield from _class(name, thing, about)


def _class(name: str, cls: type, about: Mapping[str, str]) -> Iterator[str]:
    made = made_by_users(cls)
    yield _code(called(f"class {name}", cls) if made else f"class {name}")
    yield _prose(inspect.getdoc(cls))
    for field in inspect.signature(cls).parameters if made else ():
        if field in about:
            yield _attribute(name, field, "", about)
    lines = sorted(members(cls), key=lambda line: line.split("def ")[-1])
    methods = [line for line in lines if "def " in line]
    for line in lines:
        if line not in methods:
            attribute, _, kind = line.partition(": ")
            yield _attribute(name, attribute, kind, about)
    for line in methods:
        method = line.split("def ")[1].partition("(")[0]
        if method in ENTERING:
            yield f'<span id="{name}.{method}"></span>It works in a block: `{ENTERING[method]} …:`.'
        elif not method.startswith("__"):
            yield f"### {name}.{method} {{ #{name}.{method} }}"
            yield _code(line)
            yield _prose(inspect.getdoc(inspect.getattr_static(cls, method)))


def _attribute(owner: str, name: str, kind: str, about: Mapping[str, str]) -> str:
    typed = f": `{kind}`" if kind else ""
    text = _prose(about.get(name)).replace("\n", "\n    ")
    return f'- <span id="{owner}.{name}"></span>**`{name}`**{typed}  \n    {text}'


def _attributes(cls: type) -> Mapping[str, str]:
    """What the sources say about the attributes of a class: the text below each, or the property's."""
    found: dict[str, str] = {}
    for base in reversed([each for each in cls.__mro__ if each.__module__.startswith("fencelock")]):
        found |= {
            name: inspect.getdoc(member) or ""
            for name, member in vars(base).items()
            if isinstance(member, property)
        }
        body = _classes(base.__module__)[base.__qualname__]
        for each in body.bases if is_typeddict(base) else ():  # at run time it is only a dict
            above = getattr(sys.modules[base.__module__], ast.unparse(each))
            found |= _attributes(above) if is_typeddict(above) else {}
        for statement, below in zip(body.body, body.body[1:], strict=False):
            match statement, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name))
                    | ast.Assign(targets=[ast.Name(id=name)]),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = inspect.cleandoc(text)
    return found


@functools.cache
def _classes(module: str) -> Mapping[str, ast.ClassDef]:
    """The classes at the top of a module. (To ask `inspect` for each would parse the module each time.)"""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {each.name: each for each in body if isinstance(each, ast.ClassDef)}


def _prose(docstring: str | None) -> str:
    """A docstring as Markdown. Lines that begin with a name and a colon are a list."""
    lines = (docstring or "").splitlines()
    for number, line in enumerate(lines):
        if re.match(r"`[^`]+`: ", line):
            first = number == 0 or not re.match(r"- |    ", lines[number - 1])
            lines[number] = ("\n" if first else "") + f"- {line}"
        elif line and number and re.match(r"\n?- |    \S", lines[number - 1]):
            lines[number] = f"    {line}"
    return "\n".join(lines)


def _code(text: str, language: str = "python") -> str:
    # Two things in signatures are no news for a caller: that the default is a private object, and that
    # words of other libraries are caught.
    shown = re.sub(r" \| _Default|,?\s+\*\*habits: Never", "", text)
    return f"```{language}\n{shown}\n```"


def _linked(text: str, page: str, anchors: Mapping[str, str]) -> str:
    """The text, where names of the reference and of pages are links. Headings and code stay as they are."""

    def link(found: re.Match[str]) -> str:
        owner, _, member = found[1].partition(".")
        if owner not in anchors:
            return found[0]
        there = anchors[owner] + (f".{member}" if member else "")
        return f"[{found[0]}]({there.removeprefix(page)})"

    blocks = re.split(r"(^```.*?^```$|^#.*?$)", text, flags=re.MULTILINE | re.DOTALL)
    for number in range(0, len(blocks), 2):
        blocks[number] = re.sub(r"(?<!\*)`(\w+(?:\.\w+)?)(?:\(\))?`", link, blocks[number])
        blocks[number] = re.sub(r"\bdocs/([\w/-]+\.md)", r"[\1](../\1)", blocks[number])
    return "".join(blocks)
