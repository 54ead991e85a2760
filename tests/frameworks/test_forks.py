"""multiprocessing and os.fork: a client at module level, which the parent has used before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import output_of

START = """
    import multiprocessing, os, sys, fencelock

    client = fencelock.Client(sys.argv[1], ttl=3600)
    parents = client.lock("parent").acquire()

    @client.locked("counter")
    def count(path, lease):
        assert lease.owner.pid == os.getpid()
        number = int(open(path).read() or 0)
        open(path, "w").write(str(number + 1))

    def work(path):
        assert os.getpid() != parents.owner.pid
        count(path)
        assert client.lock("parent").try_acquire() is None
        for use in (parents.check, parents.release, parents.renew):
            try:
                use()
            except fencelock.FencelockError as error:
                assert "can't be used in its child" in str(error)
            else:
                raise AssertionError("the child could use the parent's lease")

    path = sys.argv[2]
    count(path)
    fork = multiprocessing.get_context("fork")
"""
FORKS = {
    "a pool": """
        with fork.Pool(2) as pool:
            pool.map(work, [path] * 9)
    """,
    "processes": """
        processes = [fork.Process(target=work, args=[path]) for _ in range(3)]
        for process in processes:
            process.start()
        for _ in range(6):
            count(path)  # the parent goes on meanwhile
        for process in processes:
            process.join()
            assert process.exitcode == 0
    """,
    "os.fork": """
        for _ in range(9):
            pid = os.fork()
            if not pid:
                work(path)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    """,
    "a child of a child": """
        def twice():
            work(path)
            own = client.lock("child").acquire()
            processes = [fork.Process(target=work, args=[path]) for _ in range(8)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
                assert process.exitcode == 0
            own.release()
        process = fork.Process(target=twice)
        process.start()
        process.join()
        assert process.exitcode == 0
    """,
}
END = """
    parents.renew()
    parents.release()
    print(open(path).read())
"""


@pytest.mark.parametrize("fork", FORKS)
def test_children_use_the_client_of_their_parent(fork: str, redis_url: str, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.touch()
    assert output_of(redis_url, START, FORKS[fork], END, more=(counter,)) == "10\n"
