"""What we publish: a source archive, the wheel that is built from it, and extras that are complete.

The pinned hatchling builds the wheel from the archive, so a test of the wheel tests both. The wheel goes into
a fresh environment. Each extra goes into a separate folder. With nothing else on the path, all modules of the
extra's engines can be imported, and the other engines say what to install.
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from fencelock.engines.registry import _BUILT_IN

ROOT = Path(__file__).parent.parent
UV = ROOT / ".tools" / "bin" / "uv"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OBSERVING = {"otel", "prometheus"}
EXTRAS = {extra for _, _, extra in _BUILT_IN.values() if extra}
PLACES = {"sqlite": "/a", "redis+unix": "/a", "redlock": "a,b,c", "redlocks": "a,b,c"}
PLACES |= {"redis+sentinel": "a/b", "rediss+sentinel": "a/b"}
URLS = [f"{scheme}://{PLACES.get(scheme, 'a')}" for scheme in _BUILT_IN]


def uv(*words: str | Path) -> None:
    done = subprocess.run([UV, *words], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--no-build-isolation", "--offline", "--python", sys.executable, "-o", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def archive(built: Path) -> Path:
    (path,) = built.glob("*.tar.gz")
    return path


def about(wheel: Path) -> Message:
    """The metadata for PyPI and pip."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = [name for name in packed.namelist() if name.endswith("/METADATA")]
        return email.message_from_bytes(packed.read(name))


def source() -> set[str]:
    """All files of the package: modules, Lua, SQL, C, `py.typed`. And the plugin for pytest beside it."""
    paths = (ROOT / "src").rglob("*")
    files = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(ROOT / "src")) for path in files}


def test_the_wheel_is_the_package(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == source()
    for kind in (".lua", ".sql", ".c", "/py.typed"):
        assert any(name.endswith(kind) for name in packed), kind


def test_the_archive_is_what_the_wheel_is_built_from(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    papers = {"pyproject.toml", "scripts/readme.py", "README.md", "CHANGELOG.md", "LICENSE"}
    assert names == {f"src/{name}" for name in source()} | papers | {"PKG-INFO", ".gitignore"}


def test_what_the_index_shows(wheel: Path) -> None:
    said = about(wheel)
    urls = dict(url.split(", ") for url in said.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    for key in ("Author", "Maintainer", "Keywords", "Classifier", "License-Expression"):
        assert said[key], key
    shown = said.get_payload()
    assert isinstance(shown, str)
    links = re.findall(r"\]\(([^)]*)\)", shown)
    for link in links:
        if link.startswith(urls["Repository"]):
            in_browser, path = link.removeprefix(urls["Repository"]).split("/main/")
            assert in_browser == ("/raw" if path.endswith(".png") else "/blob"), link
            assert (ROOT / path.partition("#")[0]).exists(), link
    assert all(link.startswith(("https://", "http://", "#")) for link in links)
    assert any(link.startswith(urls["Repository"]) for link in links)


def test_every_extra_is_there_and_all_is_all_of_them(wheel: Path) -> None:
    assert set(PROJECT["optional-dependencies"]) == EXTRAS | OBSERVING | {"all", "service"}
    every = {name for extra in EXTRAS | OBSERVING | {"service"} for name in needed(wheel, extra)}
    assert set(needed(wheel, "all")) == every


def needed(wheel: Path, extra: str) -> list[str]:
    """The requirements of this extra; without an extra, the requirements of the package itself."""
    asked = [Requirement(text) for text in about(wheel).get_all("Requires-Dist", [])]
    return [
        f"{one.name}{'[binary]' if one.extras else ''}{one.specifier}"
        for one in asked
        if (one.marker.evaluate({"extra": extra}) if one.marker else not extra)
    ]


def install(python: Path, *words: str | Path) -> None:
    """Install the pinned versions, which are usually in uv's cache."""
    pinned = ("--link-mode", "symlink", "-c", ROOT / "requirements" / "run.txt")
    command = ("pip", "install", "--python", python, *pinned)
    try:
        uv(*command, "--offline", *words)
    except AssertionError:
        uv(*command, *words)


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the wheel and its requirements, without extras."""
    folder = tmp_path_factory.mktemp("fresh") / "environment"
    uv("venv", "--offline", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    # Not through the cache: it would keep the wheel of each run for ever.
    uv("pip", "install", "--python", python, "--offline", "--no-cache", "--no-deps", wheel)
    install(python, *needed(wheel, ""))
    return python


def test_the_command_is_installed(python: Path) -> None:
    ended = subprocess.run(
        [python.parent / "fencelock", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout.split()[-1] == PROJECT["version"]


PROBE = """
import importlib, pkgutil, sys
sys.path.append({folder!r})
import fencelock
for package in {packages}:
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
        importlib.import_module(module.name)
for url in {urls}:
    for kind in fencelock.Client, fencelock.AsyncClient:
        try:
            kind(url)
        except fencelock.Unsupported as error:
            print(error)
if {extra!r} == "postgres":
    # Without its own libpq it would work on those machines only that happen to have one.
    assert importlib.import_module("psycopg.pq").__impl__ == "binary"
"""


@pytest.mark.parametrize("extra", ["", *sorted(EXTRAS)])
def test_an_extra_is_all_that_its_engines_need(
    wheel: Path, python: Path, tmp_path: Path, extra: str
) -> None:
    if extra:
        install(python, "--target", tmp_path, *needed(wheel, extra))
    ours = [module for module, _, wanted in _BUILT_IN.values() if wanted in (None, extra)]
    packages = {module.rpartition(".")[0] for module in ours} - {"fencelock.engines"}
    code = PROBE.format(folder=str(tmp_path), packages=packages, urls=URLS, extra=extra)
    ended = subprocess.run(
        [python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr

    missing = {scheme: one for scheme, (_, _, one) in _BUILT_IN.items() if one not in (None, extra)}
    refused = ended.stdout.splitlines()
    assert len(refused) == 2 * len(missing), refused
    for scheme, wanted in missing.items():
        lines = [line for line in refused if line.startswith(f"{scheme}:// needs the package ")]
        assert len(lines) == 2, refused
        advice = f"install it with: pip install 'fencelock[{wanted}]'"
        assert all(line.endswith(advice) for line in lines), lines
