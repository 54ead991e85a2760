"""Give a second chance to a test whose wait timed out: perhaps only the machine was busy.

With `--unsteady N` such tests run again after all others: alone, twice, each time in a new process. If they
pass both times, the run is green, and its last block UNSTEADY names them. The run is red if any other test
failed, if there are more than N such tests, if one of them does not pass alone, or if the run was cut short.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from asyncio import CancelledError
from collections.abc import Generator, Iterable

import pytest
from _pytest.terminal import TerminalReporter

from fencelock.servers.process import ServerSlow
from tests.waiting import InVain

LIMIT = 300.0
"""Time limit of a test that runs alone, in seconds. pytest ends a test that hangs much earlier."""

TIMES = 2


def only_waited(error: BaseException) -> bool:
    """Whether the test's own wait timed out, and nothing else failed before it or with it."""
    found = [error]
    for each in found:
        if isinstance(each, BaseExceptionGroup):
            found.extend(each.exceptions)
        elif not (_timed_out(each) or (isinstance(each, CancelledError) and each is not error)):
            return False
        # A wait in a `finally` may hide the assertion that failed before it.
        for reason in (each.__cause__, each.__context__):
            if reason is not None and not any(reason is other for other in found):
                found.append(reason)
    return True


def _timed_out(error: BaseException) -> bool:
    """Exactly these types: a `LockTimeout` is also a TimeoutError, but it is a result."""
    kind = type(error)
    if kind.__name__ == "TimeoutError" and kind.__module__.startswith("playwright."):
        return True  # the test has waited for something on a page
    if kind in (TimeoutError, subprocess.TimeoutExpired):
        frames = traceback.walk_tb(error.__traceback__)
        modules = (frame.f_globals.get("__name__", "") for frame, _ in frames)
        return not any(module.partition(".")[0] == "fencelock" for module in modules)
    return kind in (InVain, ServerSlow)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        *("--unsteady",),
        type=int,
        default=0,
        metavar="N",
        help="excuse up to N tests whose wait timed out if they pass twice by themselves",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None:
        # An attribute travels with the report from a worker of xdist to the process that counts.
        report.only_waited = only_waited(call.excinfo.value)  # type: ignore[attr-defined]
    return report


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("unsteady") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondChance(config))


class SecondChance:
    """Runs failed tests again when the workers have finished."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._excused: list[pytest.TestReport] = []
        self._verdict = ""

    @property
    def _reporter(self) -> TerminalReporter:
        found = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(found, TerminalReporter)
        return found

    @pytest.hookimpl(wrapper=True, trylast=True)  # after xdist has ended its workers
    def pytest_sessionfinish(
        self, session: pytest.Session, exitstatus: int
    ) -> Generator[None, None, None]:
        yield
        cut_short = session.shouldfail or session.shouldstop
        if exitstatus != pytest.ExitCode.TESTS_FAILED or cut_short:
            return
        stats, most = self._reporter.stats, self._config.getoption("unsteady")
        failed = [*stats.get("failed", ()), *stats.get("error", ())]
        if not all(getattr(report, "only_waited", False) for report in failed):
            return
        tests = {report.nodeid for report in failed}
        if len(tests) > most:
            self._verdict = f"{len(tests)} tests waited in vain: more than {most} are not excused"
        elif self._all_pass_alone(sorted(tests)):
            self._excuse(failed)
            session.exitstatus = pytest.ExitCode.OK

    def _all_pass_alone(self, tests: Iterable[str]) -> bool:
        self._reporter.write_line("")
        for test in tests:
            for turn in range(TIMES):
                self._reporter.write_line(f"by itself, {turn + 1} of {TIMES}: {test}")
                if failure := self._run_alone(test):
                    self._verdict = f"{test} does not pass by itself either:\n\n{failure}"
                    return False
        return True

    def _run_alone(self, test: str) -> str:
        """Run a test alone. Returns its output if it did not pass, otherwise an empty string."""
        command = [sys.executable, "-m", "pytest", "--unsteady=0"]
        if self._config.pluginmanager.hasplugin("xdist"):
            command.append("-n0")
        if basetemp := self._config.getoption("basetemp"):
            command.append(f"--basetemp={basetemp}-alone")  # another one: pytest empties it
        # A file, not a pipe: a server that still runs would keep a pipe open.
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [*command, test],
                cwd=self._config.rootpath,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(LIMIT)
            except (subprocess.TimeoutExpired, KeyboardInterrupt) as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"ended after {LIMIT:g} s at the latest: {type(error).__name__}"
            output.seek(0)
            said = output.read()
        # A skipped test has not passed.
        closing = said.rstrip().rpartition("\n")[2]
        return "" if code == 0 and "1 passed" in closing else said

    def _excuse(self, failed: list[pytest.TestReport]) -> None:
        """Count each of these tests once, as unsteady. It may have passed before its teardown failed."""
        self._excused = failed
        tests = {report.nodeid: report for report in failed}
        stats = self._reporter.stats
        for category in ("passed", "failed", "error"):
            left = [report for report in stats.pop(category, ()) if report.nodeid not in tests]
            if left:
                stats[category] = left
        self._reporter._add_stats("unsteady", list(tests.values()))

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # after everything but the closing line
    def pytest_terminal_summary(self) -> Generator[None, None, None]:
        yield
        if self._verdict:
            self._reporter.section("NOT EXCUSED", red=True)
            self._reporter.write_line(self._verdict)
        if self._excused:
            self._reporter.section("UNSTEADY", yellow=True, bold=True)
            for report in self._excused:
                self._reporter.write_sep("_", f"{report.when} of {report.nodeid}")
                self._reporter.write_line(report.longreprtext)
            self._reporter.write_sep(
                "_", f"waited in vain among others, passed {TIMES} times alone"
            )
            for test in dict.fromkeys(report.nodeid for report in self._excused):
                self._reporter.write_line(f"UNSTEADY {test}")
