"""`fencelock choose`: all answers lead to advice that the engines can keep, and to code that runs."""

from __future__ import annotations

import itertools
import json
import re
import signal
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4
from wsgiref.simple_server import WSGIRequestHandler, make_server

import psutil
import pytest

import fencelock
from fencelock.cli.choose.advice import STEPS, as_json, cautions, pages
from fencelock.cli.choose.code import URLS, packages, program
from fencelock.cli.choose.rules import QUESTIONS, Decision, Undecided, decide
from fencelock.engines import registry
from fencelock.guards import FencedFile
from fencelock.guards.http import KEY, WsgiFence
from tests.cli.conftest import Cli
from tests.cli.terminals import Emulator
from tests.test_readme import _anchors, with_servers
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]

ALL = [
    dict(zip(QUESTIONS, answers, strict=True))
    for answers in itertools.product(*(question.answers for question in QUESTIONS.values()))
]
DECISIONS = list(dict.fromkeys(decide(answers) for answers in ALL))


def test_every_combination_has_an_answer_that_its_engine_can_keep() -> None:
    traits = {engine: fencelock.Client(url).traits for engine, url in URLS.items()}
    for answers in ALL:
        decision = decide(answers)
        if decision.engine is None:
            continue
        promised = traits[decision.engine].guarantee
        assert answers["twice"] != "nothing"
        assert (decision.engine == "sqlite") == (answers["where"] == "machine"), answers
        if answers["twice"] == "damage":
            assert decision.guard not in ("none", "outside") or promised == "correctness", answers
            warned = any("two work at once" in each for each in cautions(answers, decision))
            assert warned == (promised == "efficiency"), answers
            assert decision.purpose == promised, answers
        else:
            assert (decision.guard, decision.purpose) == ("none", "efficiency"), answers
        if answers["runs"] not in ("nothing", "redis", "redlock", decision.engine):
            assert decision.engine == "sqlite", "use what runs already"


def asked(answers: dict[str, str]) -> list[str]:
    """The questions that somebody is asked who would give these answers."""
    given: dict[str, str] = {}
    while True:
        try:
            assert decide(given) == decide(answers), "an answer too few"
            return list(given)
        except Undecided as undecided:
            given[undecided.question] = answers[undecided.question]


def test_only_questions_that_still_matter_are_asked() -> None:
    lengths = [len(asked(answers)) for answers in ALL]
    assert (min(lengths), max(lengths)) == (1, 5)
    assert asked({"twice": "waste", "work": "job", "where": "machine"}) == [
        "twice",
        "work",
        "where",
    ]
    assert asked({"twice": "damage", "work": "row"}) == ["twice", "work"]
    for answers in ALL:
        for question, other in QUESTIONS.items():
            if question not in asked(answers):
                assert {decide(answers | {question: each}) for each in other.answers} == {
                    decide(answers)
                }


def test_pages_and_examples_are_there() -> None:
    for decision in DECISIONS:
        for page in pages(decision):
            path, _, anchor = page.partition("#")
            assert (ROOT / path).exists(), path
            assert not anchor or anchor in _anchors(ROOT / path), page
    for step in STEPS.values():
        assert step.example is None or (ROOT / step.example).exists()
    assert {decision.step for decision in DECISIONS} == set(STEPS), "a step that nobody is told"


def test_the_page_of_the_command_line_has_every_answer() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    for name, question in QUESTIONS.items():
        (row,) = re.findall(rf"^\| `--{name}` \|.*$", page, re.MULTILINE)
        assert all(f"`{answer}`" in row for answer in question.answers), name
    documented = page.partition("## `fencelock choose`")[2].partition("\n## ")[0]
    assert all(f"`{key}`" in documented for key in as_json(ALL[0], decide(ALL[0])))


def test_what_is_to_be_installed_can_be_installed() -> None:
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for decision in DECISIONS:
        wanted = re.findall(r"\[(.*)\]", packages(decision) or "")
        for extra in wanted and wanted[0].split(","):
            assert extra in offered["optional-dependencies"]
        if decision.engine and decision.engine != "sqlite":
            assert registry._BUILT_IN[decision.engine][2] in wanted[0].split(",")


def _covering() -> Iterator[Decision]:
    """So many decisions that their programs have every part once, and every engine."""
    seen: set[tuple[str | None, ...]] = set()
    for decision in DECISIONS:
        parts: set[tuple[str | None, ...]] = {(decision.engine,), (decision.step, decision.guard)}
        if decision.guard == "sql" and decision.engine in ("sqlite", "mysql"):
            parts.add(("storage", decision.engine))
        if parts - seen and program(decision):
            seen |= parts
            yield decision


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def guarded_service(tmp_path: Path) -> Iterator[str]:
    """A service behind HTTP that refuses stale holders, as docs/fencing.md shows it."""
    file = FencedFile(tmp_path / "kept")

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        file.write(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])), environ[KEY])
        start_response("204 No Content", [])
        return [b""]

    fence = WsgiFence(app, file.raise_fence, required=True)
    with make_server("127.0.0.1", 0, fence, handler_class=_Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
    assert file.read() == b"all is well"


@pytest.mark.parametrize("decision", list(_covering()), ids=lambda each: "-".join(map(str, each)))
def test_the_code_runs(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    decision: Decision,
) -> None:
    code = program(decision)
    assert code is not None
    assert max(map(len, code.splitlines())) <= 80, "it would not fit into a terminal"
    compile(code, "chosen", "exec")
    if decision.guard == "objects":
        return  # tests/guards/test_objects.py has a store
    driver = re.search(r"\+(psycopg|pymysql)://", code)
    code = with_servers(request, re.sub(r"\+(psycopg|pymysql)://", "://", code))
    if driver:
        code = re.sub(r'create_engine\("(\w+)', rf'create_engine("\1+{driver[1]}', code)
    if "http://localhost:8000/" in code:
        code = code.replace("http://localhost:8000/", request.getfixturevalue("guarded_service"))
    # Other engines, with other fences, write to the same storage here.
    code = re.sub(r"\b(order:42|writer)\b", f"chosen-{uuid4()}", code)
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(code, made)
    for thing in made.values():
        for end in ("close", "dispose"):  # what the end of a program does
            if not isinstance(thing, type) and callable(getattr(thing, end, None)):
                getattr(thing, end)()


# --- the command


def test_answers_as_options(sqlite_cli: Cli) -> None:
    known = {
        "twice": "damage",
        "work": "job",
        "where": "network",
        "runs": "redis",
        "storage": "sql",
    }
    words = [word for name, answer in known.items() for word in (f"--{name}", answer)]
    ended = sqlite_cli("choose", *words, "--json")
    advice = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (advice["engine"], advice["guard"], advice["step"]) == (
        "postgresql",
        "sql",
        "correctness",
    )
    ended = sqlite_cli("choose", *words)
    assert advice["code"] in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80


def test_without_a_terminal_the_missing_option_is_named(sqlite_cli: Cli) -> None:
    ended = sqlite_cli("choose", "--twice", "waste")
    assert (ended.returncode, ended.stdout) == (64, "")
    assert (
        "There is no terminal to ask: add --work with one of row, request, copies" in ended.stderr
    )
    assert ended.stderr.count("\n") == 1


def answer(terminal: Emulator, question: str, number: int) -> None:
    """Wait for the question and then for the prompt, and type."""
    terminal.see(question)
    terminal.until(lambda seen: seen.picture.rstrip().endswith("Number:"), "the prompt")
    terminal.type(f"{number}\n")


def test_questions_in_a_terminal(sqlite_cli: Cli) -> None:
    with Emulator(sqlite_cli, "choose", "--runs", "redis") as terminal:
        answer(terminal, "What happens if two processes do it", 9)
        answer(terminal, "9 is not in the range 1<=x<=3", 2)
        answer(terminal, "What is it that they do?", 6)
        answer(terminal, "Where do the processes run?", 2)
        assert terminal.ended() == 0
        assert "An efficiency lock" in terminal.lines
        assert 'url = "redis://localhost"' in terminal.lines


def test_ctrl_c_leaves_quietly(sqlite_cli: Cli) -> None:
    with Emulator(sqlite_cli, "choose") as terminal:
        terminal.expect("Number: ")
        # A signal right before Python begins to read is handled only after the next line, as in any program.
        asleep = psutil.Process(terminal.pid)
        eventually(lambda: asleep.status() == psutil.STATUS_SLEEPING, "it to read")
        terminal.type("\x03")
        assert terminal.ended() == 128 + signal.SIGINT
        assert "Traceback" not in terminal.picture
        assert "bort" not in terminal.picture
