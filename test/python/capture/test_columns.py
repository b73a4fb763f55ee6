"""The columns of captured operations: those of CPython's location table, in characters from 1."""

from __future__ import annotations

import linecache
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor

X = torch.randn(5)


@pytest.fixture(autouse=True)
def counted_anew() -> Iterator[None]:
    dynamlir.reset()
    yield


def columns(function: Callable[..., Any]) -> dict[str, tuple[int, int]]:
    """The line, from the ``def`` on, and the column of each operation of a function of one tensor, in stage 00."""
    code = function.__code__
    text = dynamlir.export(function, X).mlir
    names = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
    found: dict[str, tuple[int, int]] = {}
    for schema, place in re.findall(r'dynamo\.aten "aten\.(\w+)\..*loc\((.*)\)$', text, re.MULTILINE):
        while place in names or "(#" in place:
            place = re.sub(r"#loc\d*", lambda name: names[name[0]], place)
        file, line, column = re.findall(r'"([^"]*)":(\d+):(\d+)', place)[-1]
        assert file == code.co_filename
        assert schema not in found
        found[schema] = (int(line) - code.co_firstlineno, int(column))
    return found


def of(text: str, file: str, encoding: str = "utf-8") -> Callable[..., Any]:
    """The function ``f`` of a module with this text."""
    names: dict[str, Any] = {"torch": torch}
    exec(compile(text.encode(encoding), file, "exec"), names)
    made: Callable[..., Any] = names["f"]
    return made


def test_two_operations_of_a_line_have_their_own_columns() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.sin(x) * torch.cos(x).exp()

    assert columns(f) == {"sin": (1, 16), "mul": (1, 16), "cos": (1, 31), "exp": (1, 31)}


def test_an_expression_of_several_lines() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.add(
            x.sin(),
            x.cos(),
        )

    assert columns(f) == {"sin": (2, 13), "cos": (3, 13), "add": (1, 16)}


LINE = """\
# In front.
def f(x):
    é, ö = "…", x.sin(); return ö.exp()
"""
EXPECTED = {"sin": (1, 17), "exp": (1, 33)}
"""Of ``LINE``; in UTF-8, `x.sin` is preceded by 20 bytes."""


def test_characters_count_as_one() -> None:
    def f(x: Tensor) -> Tensor:
        return {"ä€😀": x.sin()}["ä€😀"] * x.cos()

    assert columns(f) == {"sin": (1, 24), "mul": (1, 16), "cos": (1, 42)}


@pytest.mark.parametrize(("encoding", "newline"), [("utf-8", "\n"), ("utf-8-sig", "\n"), ("utf-8", "\r\n")])
def test_a_file(encoding: str, newline: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_bytes(LINE.replace("\n", newline).encode(encoding))
    assert columns(of(LINE, str(path))) == EXPECTED


def test_a_file_of_another_encoding_that_tracebacks_have_shown(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    text = "# coding: latin-1\n" + LINE.replace("…", "°")
    path.write_bytes(text.encode("latin-1"))
    f = of(text, str(path), "latin-1")
    assert columns(f)["sin"] == (1, 20), "of bytes"
    assert linecache.getlines(str(path))
    assert columns(f) == EXPECTED


def test_a_file_that_changes(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    for text, found in [("\ndef f(x):\n  a = 'xxx'; return x.sin()\n", (1, 21)), (LINE, EXPECTED["sin"])] * 2:
        path.write_text(text)
        assert columns(of(text, str(path)))["sin"] == found


def test_a_cell_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "<cell 7>"
    monkeypatch.setitem(linecache.cache, name, (len(LINE), None, LINE.splitlines(keepends=True), name))
    assert columns(of(LINE, name)) == EXPECTED


def test_without_a_source_bytes_count() -> None:
    assert columns(of(LINE, "<nowhere>")) == {"sin": (1, 21), "exp": (1, 37)}


def test_code_without_columns() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.sin(x)

    # All units are in the second line, as under `-X no_debug_ranges`: first one unit, then up to eight.
    units = len(f.__code__.co_code) // 2
    lengths = [1] + [8] * ((units - 1) // 8) + [(units - 1) % 8] * ((units - 1) % 8 > 0)
    table = b"".join(bytes([0x80 | 13 << 3 | length - 1, 2 * (at == 0)]) for at, length in enumerate(lengths))
    made = types.FunctionType(f.__code__.replace(co_linetable=table), f.__globals__)
    assert [*made.__code__.co_positions()][1][2] is None
    assert columns(made) == {"sin": (1, 0)}


def test_decisions_name_the_column() -> None:
    def f(x: Tensor) -> Tensor:
        return x.sin().sum() + torch.linalg.det(x.reshape(1, 5) * x.reshape(5, 1))

    dynamlir.compile(f)(X)
    made = dynamlir.last_compile()
    assert made is not None
    (left, *_) = [one for one in made.decided_by("dynamo-decompose") if "linalg_det" in one.site.what]
    assert left.site.location == f"{__file__}:{f.__code__.co_firstlineno + 1}:32"
    (again, *_) = [extern for extern in made.externs if "linalg_det" in extern.schema]
    assert again.location == f"{__file__}:{f.__code__.co_firstlineno + 1}"


def test_other_columns_share_kernels() -> None:
    made = []
    for head in ("", "  "):
        f = of(f"def f(x):\n  return {head}x.sin() + 1.5\n", "<spaces>")
        dynamlir.compile(f)(X)
        report = dynamlir.last_compile()
        assert report is not None
        made.append((report.kernels, report.kernels_reused))
    assert made == [(1, 0), (1, 1)]


def test_the_operations_of_a_line_are_counted_together() -> None:
    def f(x: Tensor) -> Tensor:
        for _ in range(6):
            x = torch.sin(torch.cos(x))
        return x

    with dynamlir.config.patch(unroll_limit=11), pytest.raises(dynamlir.Unsupported, match="operations of one line"):
        dynamlir.compile(f, fullgraph=True)(X)
    with dynamlir.config.patch(unroll_limit=12):
        dynamlir.compile(f, fullgraph=True)(X)
