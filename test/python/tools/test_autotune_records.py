"""The record on disk under adverse conditions: damaged, unreadable, in unusable folders, written by several at once.

In each case results are right, the lost content is measured anew, and only the log reports a problem.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_autotune
from dynamlir import logs
from dynamlir.autotune import measure, record
from test_autotune import LAYER, check, written

# The fixtures of the measuring tests.
folder, quick, warned = test_autotune.folder, test_autotune.quick, test_autotune.warned
vectors, warnings_anew = test_autotune.vectors, test_autotune.warnings_anew


# Invalid records.


def damaged(text: str) -> dict[str, bytes]:
    """The invalid contents that a record may have."""

    def changed(**changes: Any) -> bytes:
        return json.dumps(json.loads(text) | changes).encode()

    def entry(value: Any, problem: str = LAYER) -> bytes:
        return changed(products={problem: value})

    def timed(time: Any) -> bytes:
        return entry({"strategy": "library", "milliseconds": {"library": time}})

    return {
        "empty": b"",
        "cut off": text[: len(text) // 2].encode(),
        "not text": b"\xff\xfe\x00" * 100,
        "not json": b"strategy: library",
        "python": b"__import__('os').system('true')",
        "a list": b"[]",
        "deep": b"[" * 100_000,
        "large": b" " * (record.MOST_BYTES + 1),
        "key twice": text.replace("{", '{"schema": 1, ', 1).encode(),
        "other schema": changed(schema=record.SCHEMA + 1),
        "schema true": changed(schema=True),
        "key too many": changed(more=1),
        "other machine": changed(machine={}),
        "products a list": changed(products=[]),
        "entry a string": entry("library"),
        "entry without strategy": entry({"milliseconds": {}}),
        "entry with more": entry({"strategy": "library", "milliseconds": {}, "code": "1"}),
        "unknown strategy": entry({"strategy": "spiral-lhs-1", "milliseconds": {}}),
        "strategy a number": entry({"strategy": 1, "milliseconds": {}}),
        "strategy with more": entry({"strategy": "library\n", "milliseconds": {}}),
        "problem with quotes": entry({"strategy": "library", "milliseconds": {}}, 'aten.mm.default" = "x'),
        "problem too long": entry({"strategy": "library", "milliseconds": {}}, LAYER + " groups 1" * 1000),
        "time a string": timed("1"),
        "time negative": timed(-1.0),
        "time zero": timed(0),
        "time true": timed(True),
        "time huge": timed(10**400),
        "time infinite": timed(1).replace(b'"library": 1', b'"library": Infinity'),
        "time nan": timed(1).replace(b'"library": 1', b'"library": NaN'),
        "times a list": entry({"strategy": "library", "milliseconds": [1]}),
        "times of what": entry({"strategy": "library", "milliseconds": {"spiral": 1.0}}),
    }


def test_a_record_that_is_wrong_is_measured_anew(
    folder: Path, quick: list[str], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    path = written(folder)
    good = path.read_text()
    # Each new measurement yields the former entry.
    entry = record.of_this_machine(None).read()[LAYER]
    monkeypatch.setattr(measure, "measure", lambda problem: quick.append(problem.text) or entry)
    for count, (name, content) in enumerate(damaged(good).items(), 2):
        path.write_bytes(content)
        logs._warned.clear()
        warned.clear()
        assert check().source == "measured", name
        assert len(quick) == count and len(warned) == 1 and str(path) in warned[0], (name, warned)
        # The measurement has replaced the invalid content.
        assert list(json.loads(path.read_text())["products"]) == [LAYER], name
        assert list(record.of_this_machine(None).read()) == [LAYER] and len(warned) == 1, name
    assert check().source == "record" and len(warned) == 1


def test_paths_that_cannot_be_read(folder: Path, quick: list[str], warned: list[str]) -> None:
    """A pipe without a writer, a loop of links, a dangling link, a folder in place of the record."""
    check()
    path = written(folder)
    makers: dict[str, Callable[[], None]] = {
        "pipe": lambda: os.mkfifo(path),
        "loop": lambda: path.symlink_to(path.name),
        "device": lambda: path.symlink_to("/dev/zero"),
        "nowhere": lambda: path.symlink_to("nowhere"),
        "folder": path.mkdir,
    }
    for name, make in makers.items():
        path.unlink()
        make()
        logs._warned.clear()
        warned.clear()
        assert check().source == "measured", name
        assert (len(warned) > 0) == (name != "nowhere"), (name, warned)
        # A folder cannot be replaced, so the process remembers the measurement.
        assert check().source == "record" and path.is_file() == (name != "folder"), name


def test_folders_that_cannot_be_used(
    tmp_path: Path, quick: list[str], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for number, where in enumerate(("file/below", "loop", "loop/below", "nul\0", "long" * 100), 1):
        logs._warned.clear()
        warned.clear()
        place = str(tmp_path / where)
        assert check(cache_dir=place).source == "measured" and len(quick) == number, where
        assert warned, where
        count = len(warned)
        # The process remembers what it could not write, and warns only once.
        assert check(cache_dir=place).source == "record" and len(warned) == count, where


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("call", ["mkdir", "open", "fsync", "replace"])
def test_a_disk_that_refuses(
    number: int,
    call: str,
    folder: Path,
    quick: list[str],
    warned: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disk that is full, read-only, owned by others or broken, at each step of writing."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        record.of_this_machine(None).merge({LAYER: record.Entry("library", {"library": 1.0})})
        known = record.of_this_machine(None).read()
    assert known[LAYER].strategy == "library" and warned and os.strerror(number) in warned[0]
    assert not list(folder.glob("*.new")) and not list(folder.glob("*.json"))
    assert check().source == "record" and not quick


def test_a_file_that_may_not_grow(folder: Path) -> None:
    """As on a full disk, the system refuses in the middle of writing. The old record stays."""
    kept = record.of_this_machine(None)
    kept.merge({LAYER: record.Entry("library")})
    before = kept.read()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        kept.merge({LAYER + " ": record.Entry("dots-rhs-2")})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert record.parse(written(folder).read_text(), record.machine.describe()) == before
    assert not list(folder.glob("*.new"))


def test_where_the_record_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DYNAMLIR_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def where(given: str | None = None) -> str | None:
        path = record.of_this_machine(given).path
        return None if path is None else str(path.parent)

    def no_home(*args: Any) -> Any:
        raise KeyError("no such user")

    with monkeypatch.context() as patch:
        patch.setattr("pwd.getpwuid", no_home)
        assert where() is None
    monkeypatch.setenv("HOME", "/of/somebody")
    assert where() == "/of/somebody/.cache/dynamlir"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert where() == "/of/somebody/.cache/dynamlir"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/caches")
    assert where() == "/var/caches/dynamlir"
    monkeypatch.setenv("DYNAMLIR_CACHE_DIR", "/elsewhere")
    assert where() == "/elsewhere"
    assert where(str(tmp_path)) == str(tmp_path)


def test_without_a_home_the_process_remembers(
    monkeypatch: pytest.MonkeyPatch, quick: list[str], warned: list[str]
) -> None:
    monkeypatch.setattr(record, "cache_folder", lambda given: None)
    monkeypatch.setattr(record, "_unsaved", {})
    assert [check().source for _ in range(2)] == ["measured", "record"]


# Two processes at a time.


def test_processes_that_write_at_once_lose_nothing(folder: Path) -> None:
    program = """
        import sys
        from dynamlir.autotune import record
        kept = record.of_this_machine(None)
        for number in range(40):
            problem = f"aten.mm.default {number + 1}x{sys.argv[1]}[1,1] 1x1[1,1]"
            kept.merge({problem: record.Entry("library", {"library": 1.0})})
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    writers = [subprocess.Popen([*command, str(number)], stderr=subprocess.PIPE) for number in (1, 2)]
    for writer in writers:
        _, errors = writer.communicate(timeout=300)
        assert writer.returncode == 0 and not errors, errors
    products = json.loads(written(folder).read_text())["products"]
    assert len(products) == 80 and not list(folder.glob("*.new"))


def test_a_lock_that_is_never_let_go(folder: Path, warned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of a process that was stopped while it wrote: others continue without writing."""
    monkeypatch.setattr(record, "LOCK_SECONDS", 0.05)
    kept = record.of_this_machine(None)
    assert kept.path is not None
    folder.mkdir()
    with record._locked(kept.path.with_suffix(".lock")):
        kept.merge({LAYER: record.Entry("library")})
    assert len(warned) == 1 and not kept.path.exists() and kept.read()[LAYER].strategy == "library"
    kept.merge({})
    assert LAYER in json.loads(kept.path.read_text())["products"], "what could not be written is written later"
