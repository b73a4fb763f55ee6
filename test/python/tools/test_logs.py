"""Logs (``DYNAMLIR_LOGS``): the form of lines, JSON, colours, the user's lines, and code."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
from collections.abc import Callable, Iterator

import dynamlir
import forked
import pytest
import torch
from dynamlir import logs
from torch import Tensor

X = torch.ones(3)
PREFIX = r"\d\d:\d\d:\d\d\.\d{3} (INFO|DEBUG|WARNING) +\[dynamlir\.(\w+)\] ?"


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    dynamlir.reset()
    yield
    logs.configure("")


def scaled(x: Tensor, name: str) -> Tensor:
    return x + 1 if name == "a" else x - 1


FIRST = scaled.__code__.co_firstlineno


def sized(x: Tensor) -> Tensor:
    return x * 2 if x.shape[0] < 100 else x


def test_each_line_has_time_level_and_topic(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("+cache,guards,fallback")
    dynamlir.compile(scaled)(X, "a")
    dynamlir.compile(lambda x: x * 1j)(X)
    lines = capsys.readouterr().err.splitlines()
    found = [re.match(PREFIX, line) for line in lines]
    assert all(found) and {match[2] for match in found if match} == {"cache", "guards", "fallback"}
    (guard,) = (line for line in lines if "[dynamlir.guards] L['name'] == 'a'" in line)
    assert guard.split()[1] == "DEBUG"


def test_recompilations_have_the_lines_of_the_function_and_of_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("recompiles")
    compiled = dynamlir.compile(scaled)
    compiled(X, "a")
    assert capsys.readouterr().err == ""
    compiled(X, "b")
    call = test_recompilations_have_the_lines_of_the_function_and_of_the_call.__code__.co_firstlineno + 5
    head, guard = capsys.readouterr().err.splitlines()
    assert f"scaled at {__file__}:{FIRST} matches no entry of its 1, called at {__file__}:{call} in" in head
    assert guard.endswith("[dynamlir.recompiles] - L['name'] == 'a': expected 'a', seen 'b'")


def test_guards_on_sizes_have_the_lines_that_need_them(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("guards")
    dynamlir.compile(sized, dynamic=True)(X)
    err = capsys.readouterr().err
    assert f"sized at {__file__}:{sized.__code__.co_firstlineno}, called at {__file__}:" in err
    assert re.search(rf"s0 < 100 *# at {re.escape(__file__)}:{sized.__code__.co_firstlineno + 1} in sized", err)


def test_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMLIR_LOG_FORMAT", "json")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    logs.configure("guards,graph_breaks,fallback")

    def breaks(x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x

    dynamlir.compile(breaks)(X)
    try:
        raise ValueError("no")
    except ValueError:
        logs.logger("fallback").warning("two\nlines", exc_info=True)
    records = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {record["topic"] for record in records} == {"guards", "graph_breaks", "fallback"}
    for record in records:
        assert record["process"] == os.getpid() and record["thread"] == "MainThread" and record["rank"] == 1
        assert record["file"] == __file__ and re.fullmatch(r"\d{4}-\d\d-\d\dT.*\+00:00", record["time"])
    broke = next(record for record in records if record["topic"] == "graph_breaks")
    assert (broke["line"], broke["function"]) == (breaks.__code__.co_firstlineno + 1, "breaks")
    assert records[-1]["message"] == "two\nlines" and "ValueError: no" in records[-1]["exception"]


def test_an_unknown_format_is_said_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMLIR_LOG_FORMAT", "xml")
    logs.configure("fallback")
    assert capsys.readouterr().err == "dynamlir: DYNAMLIR_LOG_FORMAT is 'xml', expected text or json\n"
    logs.logger("fallback").info("as text")
    assert "[dynamlir.fallback] as text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), (None, False)]
)
def test_colours_on_terminals_only(
    variables: dict[str, str] | None, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TERM": "xterm", "NO_COLOR": "", **(variables or {})}.items():
        monkeypatch.setenv(name, value)
    reader, writer = os.pipe() if variables is None else pty.openpty()
    logs.configure("perf")
    with open(writer, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        logs.logger("perf").info("one\ntwo")
        stream.flush()
        text = os.read(reader, 4096).decode()
    os.close(reader)
    assert ("\x1b[" in text) is coloured and len(text.splitlines()) == 2
    assert all(re.match(PREFIX + "(one|two)$", line) for line in re.sub(r"\x1b\[\d*m", "", text).splitlines())


def test_help_lists_the_topics_and_ends_the_program() -> None:
    done = forked.python("import dynamlir\nprint('not reached')", env={**os.environ, "DYNAMLIR_LOGS": "help"})
    assert done.returncode == 0 and done.stderr == "" and "not reached" not in done.stdout
    for topic, meaning in logs.TOPICS.items():
        assert re.search(rf"^  {topic} +{re.escape(meaning)}$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(("topic", "level"), [("output_code", logging.INFO), ("+output_code", logging.DEBUG)])
def test_the_code_of_kernels(topic: str, level: int, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(topic)
    function: Callable[[Tensor], Tensor] = dynamlir.compile(lambda x: x.exp() * 3)
    assert torch.allclose(function(X), X.exp() * 3)
    err = capsys.readouterr().err
    made = dynamlir.last_compile()
    assert made is not None and made.eager is None
    (kernel,) = made.launched
    assert f"func.func @{kernel.name}(" in err and "dynamo.exp" in err and "03-kernels.mlir" in err
    assert ("11-kernels.s" in err) is (level == logging.DEBUG)


def test_code_is_logged_from_the_user_s_own_dump(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("output_code")
    dynamlir.compile(lambda x: x.exp() * 4, options={"dump": str(tmp_path / "stages")})(X)
    assert "dynamo.exp" in capsys.readouterr().err and (tmp_path / "stages" / "03-kernels.mlir").is_file()


def test_code_without_a_place_to_write_it_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("tempfile.TemporaryDirectory", full)
    logs.configure("output_code")
    function = dynamlir.compile(lambda x: x.exp() * 5, fullgraph=True)
    assert torch.allclose(function(X), X.exp() * 5)
