"""Texts on which MLIR's parser ends the process: `dynamlir.load` tries them in a child and raises `ValueError`."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path

import dynamlir
import pytest
import torch
from dynamlir import parsing

DEADLY = {
    "an array of an odd type": "module attributes {a = array<index: 1>} {}",
    "a result of a huge number": (
        "func.func @main() -> i32 { %0:2 = func.call @g() : () -> (i32, i32)  return %0#2147483648 : i32 }"
    ),
    "an iterator that is a number": (
        "func.func @main(%a: memref<2xf32>) { linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], "
        "iterator_types = [0]} outs(%a : memref<2xf32>) { ^bb0(%o: f32): linalg.yield %o : f32 } return }"
    ),
    "attributes nested deep": f"module attributes {{a = {'[' * 300_000}{']' * 300_000}}} {{}}",
    "types nested deep": f"func.func private @f({'tuple<' * 300_000}i32{'>' * 300_000})",
    "regions nested deep": "module {" * 100_000 + "}" * 100_000,
}

WRONG = {
    "nothing": "",
    "no module": "let there be light",
    "no graph": "module {}",
    "cut off": "func.func @main(",
    "bytes": "\x00\x01\x02",
}


def written(folder: Path, text: str, name: str = "05-linalg.mlir") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_saved_program_with_such_a_text(tmp_path: Path) -> None:
    dynamlir.export(lambda x: x + 1, torch.ones(3)).save(tmp_path / "p")
    (text,), about = (tmp_path / "p").glob("*.mlir"), tmp_path / "p" / "program.json"
    deadly = DEADLY["an array of an odd type"]
    text.write_text(deadly)
    described = json.loads(about.read_text()) | {"text": hashlib.sha256(deadly.encode()).hexdigest()}
    about.write_text(json.dumps(described))
    with pytest.raises(ValueError, match="parser does not survive"):
        dynamlir.load(tmp_path / "p")


@pytest.mark.parametrize("name", DEADLY)
def test_a_text_that_the_parser_does_not_survive(name, tmp_path):
    path = written(tmp_path, DEADLY[name])
    for _ in range(2):
        with pytest.raises(ValueError, match=r"05-linalg\.mlir: "):
            dynamlir.load(path)


@pytest.mark.parametrize("name", WRONG)
def test_others_are_told_about_as_before(name, tmp_path):
    with pytest.raises(ValueError) as caught:
        dynamlir.load(written(tmp_path, WRONG[name]))
    assert "survive" not in str(caught.value)


def test_the_message_names_the_file_and_what_happened(tmp_path):
    path = written(tmp_path, DEADLY["an array of an odd type"])
    with pytest.raises(ValueError, match=r"parser does not survive this text \(SIG[A-Z]+\)") as caught:
        dynamlir.load(path)
    assert str(caught.value).startswith(str(path))


def test_names_of_files_may_be_odd(tmp_path):
    for name in ("two\nlines.mlir", "ünïcode.mlir", "a 'quote'.mlir", os.fsdecode(b"\xff.mlir")):
        path = written(tmp_path, DEADLY["an array of an odd type"], name)
        with pytest.raises(ValueError, match="survive"):
            dynamlir.load(path, "linalg")


def test_one_child_serves_many_texts_and_another_follows_it_when_it_is_gone(tmp_path):
    path = written(tmp_path, WRONG["no graph"])
    children = []
    for number in range(4):
        with pytest.raises(ValueError):
            dynamlir.load(path)
        child = parsing._child
        assert child is not None
        children.append(child.pid)
        if number == 1:
            os.kill(child.pid, signal.SIGTERM)
            child.wait()
    assert children[0] == children[1] != children[2] == children[3]


def test_without_a_python_to_start_nothing_is_tried(tmp_path, monkeypatch):
    parsing._stop()
    monkeypatch.setattr("sys.executable", "")
    with pytest.raises(ValueError, match="no function has the attribute"):
        dynamlir.load(written(tmp_path, WRONG["no graph"]))
    assert parsing._child is None


ROWS = "tensor<?x4xf32, #dynamo.sizes<s0, 4>>"
STRIDES = "{dynamo.strides = array<i64: 4, 1>}"
ENTRY = (
    "dynamo.entry, dynamo.outputs = [#dynamo.output<result 0>], "
    "dynamo.symbols = [#dynamo.symbol<s0, argument = 0, dim = 0>]"
)
KERNEL = "dynamo.kernel, dynamo.signature = (memref<?x4xf32>) -> (memref<?x4xf32>)"

# Texts for all sizes of the first dimension.
OPEN = {
    "02-prims": (
        f"func.func @main(%x: {ROWS} {STRIDES}) -> ({ROWS} {STRIDES}) "
        f"attributes {{{ENTRY}}} {{ %0 = dynamo.exp %x : {ROWS}  return %0 : {ROWS} }}"
    ),
    "03-kernels": (
        f"func.func @main(%x: {ROWS}) -> {ROWS} attributes {{{ENTRY}}} {{ "
        f"%0 = dynamo.launch @kernels::@exp_0(%x) : ({ROWS}) -> {ROWS}  return %0 : {ROWS} }}\n"
        f"module @kernels {{ func.func @exp_0(%x: {ROWS}) -> {ROWS} attributes {{dynamo.kernel, "
        "dynamo.domain = #dynamo.sizes<s0, 4>, dynamo.reduced_dims = array<i64>, "
        "dynamo.symbols = [#dynamo.symbol<s0>]} "
        f"{{ %0 = dynamo.exp %x : {ROWS}  return %0 : {ROWS} }} }}"
    ),
}


@pytest.mark.parametrize("stage", OPEN)
def test_sizes_may_be_expressions(stage, tmp_path):
    function = dynamlir.load(written(tmp_path, OPEN[stage], f"{stage}.mlir"))
    for rows in (5, 2, 17, 5):
        x = torch.randn(rows, 4)
        found = function(x)
        torch.testing.assert_close(found[0] if isinstance(found, (list, tuple)) else found, x.exp())
    with pytest.raises(Exception, match="s0 may not be 1"):
        function(torch.randn(1, 4))


# Other texts, with their messages.
SYMBOLIC = {
    "08-llvm": (
        f"func.func @main(%x: memref<?x4xf32>) -> memref<?x4xf32> attributes {{{ENTRY}}} {{ "
        "%o = dynamo.output_buffer sizes [s0, 4] : memref<?x4xf32>  "
        "dynamo.launch @kernels::@k(%x, %o) sizes [s0] : (memref<?x4xf32>, memref<?x4xf32>) -> ()  "
        "dynamo.commit  return %o : memref<?x4xf32> }\n"
        "module @kernels { llvm.func @k(%x: !llvm.ptr, %o: !llvm.ptr, %n: i64) "
        f"attributes {{{KERNEL}}} {{ llvm.return }} }}",
        r"argument 0 has type memref<\?x4xf32>, expected a memref whose sizes, strides and offset are said",
    ),
    "an assumption in no known form": (
        f"func.func @main(%x: {ROWS} {STRIDES}) -> ({ROWS} {STRIDES}) "
        f'attributes {{dynamo.assumed = "s0 =< 9", {ENTRY}}} {{ return %x : {ROWS} }}',
        r"'dynamo\.assumed' says .s0 =< 9.: expected a relation",
    ),
    "an assumption of another symbol": (
        f"func.func @main(%x: {ROWS} {STRIDES}) -> ({ROWS} {STRIDES}) "
        f'attributes {{dynamo.assumed = "s0 <= 9; s1 <= 9", {ENTRY}}} {{ return %x : {ROWS} }}',
        r"'dynamo\.assumed' says .s1 <= 9.: s1 is not declared",
    ),
    "an unknown symbol": (
        f"func.func @main(%x: {ROWS}) -> {ROWS} attributes {{dynamo.entry}} {{ return %x : {ROWS} }}",
        r"names the symbol s0, which 'dynamo\.symbols' of @main does not declare",
    ),
    "a division by zero": (
        "func.func @main(%x: tensor<?xf32, #dynamo.sizes<s0 mod 0>>) { return }",
        r"division by zero",
    ),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_sizes_that_are_expressions_are_told_about(name, tmp_path):
    text, message = SYMBOLIC[name]
    file = f"{name}.mlir" if name[0].isdigit() else "text.mlir"
    with pytest.raises(ValueError, match=message):
        dynamlir.load(written(tmp_path, text, file))
