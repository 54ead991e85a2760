"""Lock URLs: every part of a good one, a clear word about a bad one, and never a password."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.core.url import Url

SECRET = "s3cr3t/?#@:%[]"


def test_all_parts() -> None:
    url = Url.parse("redis+sentinel://me:pass@a:1,b:2/main/3?timeout=0.5&db=")
    assert url.scheme == "redis+sentinel"
    assert url.hosts == (("a", 1), ("b", 2))
    assert (url.user, url.password) == ("me", "pass")
    assert url.path == "/main/3"
    assert url.options == {"timeout": "0.5", "db": ""}


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("memory://", ()),
        ("memory://name", (("name", None),)),
        ("memory://test_x[a-1]", (("test_x[a-1]", None),)),
        (
            "memory://tests/test_x.py::test_y[é %#?@:]",
            (("tests/test_x.py::test_y[é %#?@:]", None),),
        ),
        ("redis://localhost", (("localhost", None),)),
        ("redis://localhost:", (("localhost", None),)),
        ("redis://localhost:6379", (("localhost", 6379),)),
        ("redis://[::1]", (("::1", None),)),
        ("redis://[::1]:7000", (("::1", 7000),)),
        ("redis://[fe80::1%25eth0]:7000", (("fe80::1%25eth0", 7000),)),
        ("redis://a,[::1]:7,10.0.0.1:8", (("a", None), ("::1", 7), ("10.0.0.1", 8))),
        ("redis://u:p@h@host:1", (("host", 1),)),
    ],
)
def test_hosts(text: str, hosts: tuple[tuple[str, int | None], ...]) -> None:
    assert Url.parse(text).hosts == hosts


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///locks.db", "/locks.db"),
        ("sqlite:////var/lib/locks.db", "//var/lib/locks.db"),
        ("sqlite:///with%20space/%C3%A9.db", "/with space/é.db"),
        ("sqlite:///mail@home/locks.db", "/mail@home/locks.db"),
    ],
)
def test_paths(text: str, path: str) -> None:
    url = Url.parse(text)
    assert url.path == path
    assert url.hosts == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must look like scheme://"),
        ("localhost", "must look like scheme://"),
        ("localhost:6379", "must look like scheme://"),
        ("redis:/localhost", "must look like scheme://"),
        ("://localhost", "must look like scheme://"),
        ("re dis://localhost", "begin with a scheme of letters"),
        ("re_dis://localhost", "begin with a scheme of letters"),
        ("1redis://localhost", "begin with a scheme of letters"),
        ("redis://localhost:port", "port from 1 to 65535"),
        ("redis://localhost:0", "port from 1 to 65535"),
        ("redis://localhost:65536", "port from 1 to 65535"),
        ("redis://localhost:-1", "port from 1 to 65535"),
        ("redis://localhost:1.5", "port from 1 to 65535"),
        ("redis://localhost:٣", "port from 1 to 65535"),
        ("redis://:6379", "a host must look like"),
        ("redis://a,,b", "a host must look like"),
        ("redis://a,", "a host must look like"),
        ("redis://::1", "a host must look like"),
        ("redis://[::1", "check its host"),
        ("redis://[::1]x:7", "host"),
        ("redis://a:1:2", "a host must look like"),
    ],
)
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Url.parse(text)


@pytest.mark.parametrize("text", [None, 42, b"redis://localhost"])
def test_a_url_is_a_string(text: object) -> None:
    with pytest.raises(TypeError, match="a lock URL must be a str"):
        Url.parse(text)  # type: ignore[arg-type]


def test_credentials_may_be_percent_encoded() -> None:
    url = Url.parse(f"redis://{quote('m@e', safe='')}:{quote(SECRET, safe='')}@localhost")
    assert url.user == "m@e"
    assert url.password == SECRET
    assert url.hosts == (("localhost", None),)


def test_credentials_may_be_missing() -> None:
    assert Url.parse("redis://localhost").user is None
    assert Url.parse("redis://:p@localhost").user is None
    assert Url.parse("redis://u@localhost").password is None
    assert str(Url.parse("redis://:p@localhost")) == "redis://:***@localhost"
    assert str(Url.parse("redis://u@localhost")) == "redis://u@localhost"


@pytest.mark.parametrize("mark", ["/", "?", "#"])
@pytest.mark.parametrize("start", ["12", "top"])
def test_a_password_that_should_be_percent_encoded_is_not_taken_for_a_path(
    start: str, mark: str
) -> None:
    with pytest.raises(ValueError, match=r"%2F, %3F and %23|port from 1") as caught:
        Url.parse(f"redis://user:{start}{mark}hidden@localhost")
    assert "hidden" not in str(caught.value)


PASSWORDS = st.text(min_size=6).map(lambda text: f"s3cr3t{text}")


@given(PASSWORDS, st.sampled_from(["localhost", "localhost:1", "[::1]:2", "a,b:3"]))
def test_a_password_is_never_shown(password: str, hosts: str) -> None:
    encoded = quote(password, safe="", errors="surrogatepass")
    url = Url.parse(f"redis://user:{encoded}@{hosts}/0?a=b")
    for text in (str(url), repr(url), f"{url}", f"{url!r}"):
        assert "s3cr3t" not in text
    with pytest.raises(ValueError, match="unknown option 'a'") as caught:
        url.only("b")
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(ValueError, match="option a must be more than 0 seconds") as caught:
        url.seconds("a", 1.0)
    assert "s3cr3t" not in str(caught.value)


@given(PASSWORDS, st.sampled_from(["host:port", "host:0", ":1", "[::1", "a,,b", "h\u2100st"]))
def test_a_password_is_never_shown_in_an_error(password: str, hosts: str) -> None:
    encoded = quote(password, safe="", errors="surrogatepass")
    with pytest.raises(ValueError, match="redis://") as caught:
        Url.parse(f"redis://user:{encoded}@{hosts}")
    error: BaseException | None = caught.value
    while error is not None:
        assert "s3cr3t" not in f"{error!r}{error}"
        assert not error.__context__ or error.__suppress_context__
        error = error.__cause__


@given(st.text(max_size=40).map(lambda text: f"redis://{text}"))
def test_any_text_is_taken_apart_or_refused(text: str) -> None:
    try:
        url = Url.parse(text)
    except ValueError:
        return
    assert url.scheme == "redis"
    assert all(host and (port is None or 0 < port < 65536) for host, port in url.hosts)


def test_a_scheme_is_lower_case() -> None:
    assert Url.parse("REDIS://localhost").scheme == "redis"


def test_what_is_shown_can_be_read_again() -> None:
    text = "redis://u@a:1,[::1]:2/0"
    assert str(Url.parse(text)) == text
    assert Url.parse(str(Url.parse(text))) == Url.parse(text)


@pytest.mark.parametrize(
    ("text", "value"), [("2", 2.0), ("0.5", 0.5), ("1e-3", 0.001), ("5m", 300.0)]
)
def test_options_in_seconds(text: str, value: float) -> None:
    assert Url.parse(f"redis://h?timeout={text}").seconds("timeout", 9.0) == value


def test_an_option_has_a_default() -> None:
    assert Url.parse("redis://h").seconds("timeout", 9.0) == 9.0


@pytest.mark.parametrize("text", ["", "0", "-1", "inf", "nan", "soon", "1 h 5 m"])
def test_options_that_are_no_seconds(text: str) -> None:
    with pytest.raises(ValueError, match="option timeout must be more than 0 seconds"):
        Url.parse(f"redis://h?timeout={text}").seconds("timeout", 9.0)


def test_unknown_options_are_refused() -> None:
    url = Url.parse("redis://h?tiemout=1")
    with pytest.raises(ValueError, match="'tiemout'; known options: timeout, db, namespace"):
        url.only("timeout", "db")
    with pytest.raises(ValueError, match="known options: namespace"):
        url.only()
    url.only("tiemout")


def test_a_file_in_an_option_is_relative_to_the_folder_of_the_url() -> None:
    url = Url.parse("rediss://localhost?ca=ca.pem&cert=/etc/cert.pem")
    assert url.file("ca") == "ca.pem"
    assert url._replace(folder="/srv").file("ca") == "/srv/ca.pem"
    assert url._replace(folder="/srv").file("cert") == "/etc/cert.pem"
    assert url.file("key") is None
