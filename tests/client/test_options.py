"""Options: what a caller gives, and what a client makes of it."""

from typing import Any

import pytest

import fencelock
from fencelock.client import CommonOptions, HoldOptions, Options

METHODS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "lock": (("x",), Options),
    "rwlock": (("x",), Options),
    "locked": (("x",), Options),
    "semaphore": (("x", 2), HoldOptions),
    "lock_all": ((["x", "y"],), HoldOptions),
    "election": (("x",), HoldOptions),
    "transaction": ((), CommonOptions),
}


@pytest.fixture(params=[fencelock.Client, fencelock.AsyncClient])
def client(request: pytest.FixtureRequest) -> Any:
    return request.param("memory://")


@pytest.mark.parametrize("method", METHODS)
def test_an_option_that_does_not_exist_is_refused_with_those_that_do(
    client: Any, method: str
) -> None:
    arguments, options = METHODS[method]
    with pytest.raises(TypeError, match=r"there is no option 'tll' here: .* purpose.* ttl"):
        getattr(client, method)(*arguments, tll=3)
    for option in Options.__optional_keys__ - options.__optional_keys__ - {"timeout"}:
        with pytest.raises(TypeError, match=f"there is no option '{option}' here"):
            getattr(client, method)(*arguments, **{option: None})


@pytest.mark.parametrize("method", METHODS)
def test_none_is_the_default_of_the_client(client: Any, method: str) -> None:
    arguments, _ = METHODS[method]
    getattr(client, method)(*arguments, ttl=None, timeout=None, label=None, purpose=None)


def test_help_names_every_option() -> None:
    """Or it says that the options are those of `lock`, and names those that are not."""
    for option in Options.__optional_keys__:
        assert f"`{option}`" in str(fencelock.Client.lock.__doc__)
    for method, (_, options) in METHODS.items():
        if options is not Options:
            text = str(getattr(fencelock.Client, method).__doc__)
            named = options.__optional_keys__
            if "options are those of `lock`, but" in text:
                named = Options.__optional_keys__ - named
            for option in named:
                assert f"`{option}`" in text, (method, option)


def test_what_is_given_comes_before_the_defaults_of_the_client() -> None:
    client = fencelock.Client("memory://", ttl=7, label="ours")
    with client.lock("x") as lease:
        assert (lease.ttl, lease.owner.label) == (7, "ours")
    with client.lock("x", ttl=9, label="mine") as lease:
        assert (lease.ttl, lease.owner.label) == (9, "mine")
    with client.lock("x", ttl=None, label=None) as lease:
        assert (lease.ttl, lease.owner.label) == (7, "ours")


def test_a_sync_face_of_an_async_method_looks_like_any_method() -> None:
    assert fencelock.Client.names.__name__ == "names"
    assert "names that are held" in str(fencelock.Client.names.__doc__)
