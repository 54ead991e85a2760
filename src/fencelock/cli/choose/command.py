"""`fencelock choose`: five questions, and then the page, the engine and the code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from fencelock.cli.choose.rules import QUESTIONS, Decision, Undecided, decide
from fencelock.cli.options import json_option


def _answers(command: Callable[..., None]) -> Callable[..., None]:
    """An option for each question."""
    for name, question in reversed(QUESTIONS.items()):
        choice = click.Choice(list(question.answers))
        command = click.option(f"--{name}", type=choice, help=question.text)(command)
    return command


@click.command(
    epilog="""\b
Examples:
  fencelock choose
  fencelock choose --twice waste --work job --where network --runs redis
  fencelock choose --twice damage --work row --json | jq -r .code"""
)
@_answers
@json_option
def choose(as_json: bool, **given: str | None) -> None:
    """Say whether you need a lock, and which one: the page, the engine and the code.

    It asks up to five questions, only those that still matter. Scripts give the answers as options.
    docs/do-you-need-a-lock.md has the reasons.
    """
    answers = {name: answer for name, answer in given.items() if answer is not None}
    decision = _decided(answers)
    # Only here, because the other commands don't need it.
    from fencelock.cli.choose import advice

    if as_json:
        click.echo(json.dumps(advice.as_json(answers, decision), indent=2, ensure_ascii=False))
    else:
        _show(advice.as_json(answers, decision))


def _decided(answers: dict[str, str]) -> Decision:
    """Ask until the answers are enough. They are added to `answers`."""
    while True:
        try:
            return decide(answers)
        except Undecided as undecided:
            answers[undecided.question] = _ask(undecided.question)


def _ask(name: str) -> str:
    question = QUESTIONS[name]
    known = list(question.answers)
    if not (sys.stdin and sys.stdin.isatty()):
        raise click.UsageError(
            f"{question.text} There is no terminal to ask: add --{name} with one of {', '.join(known)}."
        )
    click.echo(f"\n{question.text}", err=True)
    for number, text in enumerate(question.answers.values(), 1):
        click.echo(f"  {number}  {text}", err=True)
    number = click.prompt("Number", type=click.IntRange(1, len(known)), err=True)
    return known[number - 1]


def _show(advice: dict[str, Any]) -> None:
    click.echo(advice["title"])
    lines = [("Why", advice["why"]), ("It costs", advice["costs"]), ("Engine", advice["url"])]
    lines += [("Mind", caution) for caution in advice["cautions"]]
    lines += [("Read", page) for page in advice["pages"]]
    lines += [("Example", advice["example"]), ("Install", advice["install"])]
    before = ""
    for name, text in lines:
        if text:
            heading = f"  {'' if name == before else name:<9}"
            click.echo(click.wrap_text(text, 79, heading, " " * len(heading)))
            before = name
    if advice["code"]:
        click.echo(f"\n{advice['code']}", nl=False)
