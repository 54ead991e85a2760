"""The rules of `fencelock choose`, as tables: from a few answers to a step, an engine and a guard.

In each table the first rule that fits counts. A rule names the answers that it needs; a question that no rule
needs any more is not asked. docs/do-you-need-a-lock.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Answers = Mapping[str, str]


class Question(NamedTuple):
    """A question, and the text of each answer."""

    text: str
    answers: Answers


QUESTIONS = {
    "twice": Question(
        "What happens if two processes do it at the same time?",
        {
            "nothing": "nothing bad",
            "waste": "work is wasted, and nothing is wrong afterwards",
            "damage": "data is wrong, or somebody pays twice",
        },
    ),
    "work": Question(
        "What is it that they do?",
        {
            "row": "a change that one SQL statement or one constraint can express",
            "request": "a request that may arrive twice, such as a payment",
            "copies": "change copies that are offline at times, and merged later",
            "change": "read, compute something cheap, write it back",
            "stream": "many small changes of the same thing, all the time",
            "job": "anything else: several steps, slow work, calls to other services",
        },
    ),
    "where": Question(
        "Where do the processes run?",
        {"machine": "all on one machine", "network": "on several machines"},
    ),
    "runs": Question(
        "Which of these do you run already?",
        {
            "nothing": "none of these",
            "redis": "Redis or Valkey",
            "redlock": "three or five independent Redis servers",
            "postgresql": "PostgreSQL",
            "mysql": "MySQL or MariaDB",
            "etcd": "etcd",
            "zookeeper": "ZooKeeper",
        },
    ),
    "storage": Question(
        "Where is the data that must not go wrong?",
        {
            "sql": "in a SQL database",
            "redis": "in Redis",
            "files": "in files, or in an object store such as S3",
            "http": "behind an HTTP service that you can change",
            "outside": "where nothing can be changed: a service of somebody else",
        },
    ),
}


class Rule(NamedTuple):
    """What follows if all these answers were given. `when` has for each question the answers that fit."""

    when: Answers
    then: str


STEPS = (
    Rule({"twice": "nothing"}, "nothing"),
    Rule({"work": "row"}, "statement"),
    Rule({"work": "request"}, "key"),
    Rule({"work": "copies"}, "crdt"),
    Rule({"work": "change"}, "version"),
    Rule({"work": "stream"}, "election"),
    Rule({"twice": "waste"}, "efficiency"),
    Rule({}, "correctness"),
)
WITH_ENGINE = ("election", "efficiency", "correctness")

ENGINES = (
    Rule({"where": "machine"}, "sqlite"),
    Rule({"runs": "postgresql"}, "postgresql"),
    Rule({"runs": "mysql"}, "mysql"),
    Rule({"runs": "etcd"}, "etcd"),
    Rule({"runs": "zookeeper"}, "zookeeper"),
    Rule({"twice": "waste", "runs": "redlock"}, "redlock"),
    Rule({"twice": "waste"}, "redis"),
    # From here on, damage is possible, and at most Redis is there.
    Rule({"storage": "sql"}, "postgresql"),  # a database is there, after all, and it promises more
    Rule({"storage": "outside"}, "etcd"),  # nothing checks the fence: the engine has to be right
    # From here on, a guard makes up for what Redis can't promise.
    Rule({"runs": "redis"}, "redis"),
    Rule({"runs": "redlock"}, "redlock"),
    Rule({"storage": "redis"}, "redis"),
    Rule({}, "etcd"),
)

GUARDS = (
    Rule({"twice": "waste"}, "none"),
    Rule({"storage": "sql"}, "sql"),
    Rule({"storage": "redis"}, "redis"),
    Rule({"storage": "files", "where": "machine"}, "file"),
    Rule({"storage": "files"}, "objects"),
    Rule({"storage": "http"}, "http"),
    Rule({}, "outside"),
)

EFFICIENT = ("redis", "redlock")
"""Engines that can't promise correctness, whatever the settings."""


class Undecided(Exception):
    """The advice depends on a question without an answer."""

    def __init__(self, question: str) -> None:
        super().__init__(question)
        self.question = question


class Decision(NamedTuple):
    """What the tables say."""

    step: str
    engine: str | None = None
    """None if the step needs none."""
    guard: str = "none"

    @property
    def purpose(self) -> str:
        """What the client may ask of the engine."""
        wanted = self.guard != "none" and self.engine not in EFFICIENT
        return "correctness" if wanted else "efficiency"


def follow(rules: Sequence[Rule], answers: Answers) -> str:
    """What the first rule that fits says, or `Undecided`."""
    for rule in rules:
        if all(answers.get(name, fits) == fits for name, fits in rule.when.items()):
            for name in rule.when:
                if name not in answers:
                    raise Undecided(name)
            return rule.then
    raise AssertionError("the last rule of a table always fits")


def decide(answers: Answers) -> Decision:
    step = follow(STEPS, answers)
    if step not in WITH_ENGINE:
        return Decision(step)
    return Decision(step, follow(ENGINES, answers), follow(GUARDS, answers))
