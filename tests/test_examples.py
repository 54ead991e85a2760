"""The examples do what they say: the tests run each as a user would, and check its output."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def outcome(name: str, folder: Path, *arguments: str) -> str:
    """Run an example, in an empty folder, and return what it printed."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir()), "an example leaves nothing behind"
    return done.stdout


def test_a_cron_job_runs_once(tmp_path: Path) -> None:
    lines = outcome("cron_job_once.py", tmp_path).splitlines()
    assert " 1 built the report" in lines
    assert lines[-1] == "11 runs, 1 build"


def test_a_flash_sale_is_not_oversold(tmp_path: Path) -> None:
    printed = outcome("flash_sale.py", tmp_path)
    sold = [int(number) for number in re.findall(r"(\d+) sold of 40", printed)]
    without, with_lock = sold
    assert without > 40, "the example shows nothing if the stock is safe without a lock"
    assert with_lock == 40


def test_a_seat_that_was_set_aside_is_free_again_and_sold_once(tmp_path: Path) -> None:
    lines = outcome("seat_hold.py", tmp_path).splitlines()
    assert lines == [
        "ada: 12A is yours for a while",
        "bob: 12A is taken",
        "bob: 12B is yours for a while",
        "bob: has bought 12B",
        "cem: 12A is yours for a while",
        "cem: has bought 12A",
        "ada: too late, 12A is sold",
    ]


def test_no_stage_begins_without_the_time_to_end_it(tmp_path: Path) -> None:
    lines = outcome("staged_import.py", tmp_path).splitlines()
    assert lines == [
        "download: done",
        "convert: done",
        "stopped: too little time is left of it",
        "publish: done",
    ]


def test_a_paused_worker_does_not_charge_twice(tmp_path: Path) -> None:
    lines = outcome("double_payment.py", tmp_path).splitlines()
    assert lines[0].startswith("  LeaseLost: the lease on 'order:42'")
    assert lines[1] == "charges with the lock alone: 2"
    assert re.match(r"  StaleFence: 'order:42': fence \d+ was refused", lines[2])
    assert lines[3] == "charges with the fence, too: 1"


def test_a_clerk_who_was_overtaken_moves_no_money(tmp_path: Path) -> None:
    lines = outcome("bank_transfer.py", tmp_path).splitlines()
    assert re.fullmatch(r"refused: \d+ is older than \d+", lines[0])
    assert lines[1:] == ["ada: 200", "bob: 800"]


def test_a_stock_is_reserved_piece_by_piece(tmp_path: Path, postgresql_url: str) -> None:
    lines = outcome("reserve_stock.py", tmp_path, postgresql_url).splitlines()
    assert lines == ["20 customers were served, 20 reservations were made", "0 pieces are left"]


def test_an_old_report_does_not_replace_the_new_one(tmp_path: Path) -> None:
    lines = outcome("publish_report.py", tmp_path).splitlines()
    assert lines == ["refused: the old report", "published: the new report"]


def test_readers_share_a_list_and_see_no_half_of_one(tmp_path: Path) -> None:
    lines = outcome("rwlock_cache.py", tmp_path).splitlines()
    assert lines == ["180 lists were read, 0 of them mixed", "the newest version is 5"]


def test_an_api_is_not_asked_too_much(tmp_path: Path) -> None:
    without, with_semaphore, most = outcome("semaphore_api.py", tmp_path).splitlines()
    assert not without.endswith(" 0 refused"), "the example shows nothing if the API is never busy"
    assert with_semaphore == "with the semaphore:    24 answered, 0 refused"
    assert most == "at most 3 at a time"


def test_no_cent_is_lost_between_accounts(tmp_path: Path) -> None:
    lines = outcome("transfer_all.py", tmp_path).splitlines()
    assert lines == ["100 transfers, nobody waited in a circle", "3000 cents, as before"]


def test_philosophers_eat_if_they_give_way(tmp_path: Path) -> None:
    plain, transactions = outcome("dining.py", tmp_path).splitlines()
    assert plain == "with plain locks: 0 meals"
    assert re.fullmatch(r"in transactions:  100 meals, gave way \d+ times", transactions)


def test_a_leader_that_is_killed_is_followed(tmp_path: Path) -> None:
    lines = outcome("scheduler_leader.py", tmp_path).splitlines()
    assert lines[1:] == ["another one leads: True", "its term is later: True"]


def test_a_card_is_charged_once(tmp_path: Path) -> None:
    failed, charged, later, calls = outcome("charge_once.py", tmp_path).splitlines()
    assert failed == "1 × failed, to be delivered again: the line is busy"
    assert charged == "9 × {'receipt': 1}"
    assert later == "later: {'receipt': 1}"
    assert calls == "2 calls, 1 charge"


def test_a_driver_is_given_to_one_rider(tmp_path: Path) -> None:
    without, with_locks = outcome("ride_dispatch.py", tmp_path).splitlines()
    assert without == "without locks: 6 rides, drivers: 1"
    assert with_locks == "with locks:    6 rides, drivers: 6"


@pytest.mark.parametrize("example", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_every_example_is_short_and_tested(example: Path) -> None:
    text, name = example.read_text(), example.relative_to(EXAMPLES).as_posix()
    assert len(text.splitlines()) <= 80
    assert f"Run it: python examples/{name}" in text
    folder, _, file = name.rpartition("/")
    tests = Path(__file__).with_name(f"test_{folder or 'examples'}.py").read_text()
    assert f'outcome("{file}", tmp_path' in tests
