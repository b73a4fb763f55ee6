"""Exported programs in folders: they read back as they were written, and modified ones are refused."""

from __future__ import annotations

import collections
import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from named_programs import PROGRAMS
from test_export import Net, X, Y, nested, same
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

WEIGHTS = torch.linspace(-1, 1, 12).view(3, 4)


def saved(program: dynamlir.ExportedProgram, folder: Path) -> dynamlir.ExportedProgram:
    program.save(folder)
    loaded = dynamlir.load(folder)
    assert isinstance(loaded, dynamlir.ExportedProgram)
    return loaded


def test_round_trip_of_a_module(tmp_path: Path) -> None:
    model = Net()
    program = dynamlir.export(model, X)
    program(X)
    loaded = saved(program, tmp_path / "program")
    assert loaded.signature == program.signature and loaded.mlir == program.mlir
    assert loaded.graph_module.code == program.graph_module.code
    assert list(loaded.state_dict) == list(program.state_dict)
    theirs = copy.deepcopy(model)
    theirs(X)
    for x in (Y, X):
        same(loaded(x), theirs(x))
        for module in (loaded.module(), theirs):
            (module(x)["y"] * WEIGHTS).sum().backward()
    same(
        {name: one.grad for name, one in loaded.module().named_parameters()},
        {name: one.grad for name, one in theirs.named_parameters()},
    )
    same(loaded.state_dict, theirs.state_dict())
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False).to(memory_format=torch.channels_last)
        self.norm, self.last = nn.GroupNorm(2, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.interpolate(self.norm(self.first(x)).relu(), scale_factor=0.5)
        return self.last(F.adaptive_avg_pool2d(y, 1).flatten(1)).log_softmax(-1)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        mask = torch.full((tokens.size(1),) * 2, float("-inf")).triu(1)
        return self.layer(self.embed(tokens), mask) @ self.embed.weight.t()


def constants(x: torch.Tensor) -> Any:
    y = torch.full_like(x, float("nan"), dtype=torch.float64)[..., 1:3]
    y = torch.nan_to_num(y, nan=-0.0, posinf=float("inf"))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        z = x.to(torch.bfloat16) @ x.t().bfloat16()
    return {1: y, "z": z, "s": torch.Size([1, 2]), "d": torch.int8, "e": x[None, ..., ::2].max(-1)}


MODELS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "image": (Image(), (torch.randn(2, 3, 8, 8),), {}),
    "words": (Words(), (torch.randint(0, 11, (2, 5)),), {}),
    "nested": (nested, (({"a": X}["a"], [Y]),), {"options": {"more": {"c": torch.ones(1)}, "n": 5}}),
    "constants": (constants, (X,), {}),
    "lstm": (lambda x, w: F.gelu(x @ w).cumsum(0), (X, torch.randn(4, 2)), {}),
    "operators": (lambda x: torch.ops.aten.add.Tensor(x, x, alpha=2), (X,), {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_round_trip_of_models(name: str, tmp_path: Path) -> None:
    fn, args, kwargs = MODELS[name]
    loaded = saved(dynamlir.export(fn, *args, **kwargs), tmp_path)
    same(loaded(*args, **kwargs), fn(*args, **kwargs))
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


@torch.no_grad()
@pytest.mark.parametrize("name", PROGRAMS)
def test_round_trip_of_named_programs(name: str, tmp_path: Path) -> None:
    fn, args = PROGRAMS[name]
    program = dynamlir.export(fn, *args)
    loaded = saved(program, tmp_path)
    assert loaded.graph_module.code == program.graph_module.code
    same(loaded(*args), fn(*args))


def test_strides_and_ties_are_kept(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight = nn.Parameter(torch.randn(4, 4).t(), requires_grad=False)
    loaded = saved(dynamlir.export(model, X), tmp_path)
    weight = loaded.state["0.weight"]
    assert weight is loaded.state["1.weight"] and weight.stride() == (1, 4) and not weight.requires_grad
    same(loaded(X), model(X))


Point = collections.namedtuple("Point", "x y")


def test_what_a_file_cannot_say(tmp_path: Path) -> None:
    program = dynamlir.export(lambda x: Point(x + 1, x), X)
    same(program(X), Point(X + 1, X))
    with pytest.raises(ValueError, match=r"cannot be saved: .*namedtuple"):
        program.save(tmp_path / "program")
    assert not (tmp_path / "program").exists()


def test_memory_in_common_is_not_saved(tmp_path: Path) -> None:
    model = nn.Linear(4, 4)
    model.register_buffer("part", model.weight.detach()[0])
    program = dynamlir.export(model, X)
    with pytest.raises(ValueError, match="part shares memory with weight"):
        program.save(tmp_path)


# -- damaged folders


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "program"
    dynamlir.export(Net(), X).save(folder)
    return folder


@pytest.fixture
def damaged(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder to damage."""
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def refused(folder: Path, words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        dynamlir.load(folder)
    assert str(folder) in str(raised.value) and "\n" not in str(raised.value)


def edit(folder: Path, change: Callable[[Any], None]) -> None:
    file = folder / "program.json"
    written = json.loads(file.read_text())
    change(written)
    file.write_text(json.dumps(written))


@pytest.mark.parametrize("name", ["program.json", "00-aten.mlir", "tensors.safetensors"])
def test_files_that_are_missing_or_cut(name: str, damaged: Path) -> None:
    whole = (damaged / name).read_bytes()
    for length in (0, 5, len(whole) // 2, len(whole) - 1):
        (damaged / name).write_bytes(whole[:length])
        refused(damaged, "no exported program")
    (damaged / name).unlink()
    refused(damaged, "no exported program")


def test_no_program_at_all(tmp_path: Path) -> None:
    refused(tmp_path, "no exported program")
    (tmp_path / "program.json").write_text("[" * 100_000)
    refused(tmp_path, "no exported program")
    (tmp_path / "program.json").write_text('{"format": "another"}')
    refused(tmp_path, "is not of dynamlir.export")
    with pytest.raises(ValueError, match="has no stage"):
        dynamlir.load(tmp_path, "aten")


def test_contents_are_held_against_hashes(damaged: Path) -> None:
    for name, words in (("00-aten.mlir", "not what was written"), ("tensors.safetensors", "contents of|not what")):
        data = bytearray((damaged / name).read_bytes())
        data[-1] ^= 1
        (damaged / name).write_bytes(data)
        refused(damaged, words)
        data[-1] ^= 1
        (damaged / name).write_bytes(data)
    dynamlir.load(damaged)


def header(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrites the header of the tensors' file."""
    file = folder / "tensors.safetensors"
    data = file.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:end])
    change(entries)
    text = json.dumps(entries).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries["mean"].update(data_offsets=entries["norm.weight"]["data_offsets"]),
        lambda entries: entries["mean"].update(data_offsets=[0, 2**60]),
        lambda entries: entries["mean"].update(shape=[2**40]),
        lambda entries: entries["mean"].update(dtype="I32"),
        lambda entries: entries["mean"].update(dtype="Q4"),
        lambda entries: entries.update(more=entries.pop("mean")),
        lambda entries: entries["norm.weight"].update(shape=[2, 2]),
    ],
)
def test_headers_of_tensors(change: Callable[[dict[str, Any]], None], damaged: Path) -> None:
    header(damaged, change)
    refused(damaged, "no exported program that can be read")


def row(written: Any, op: str) -> list[Any]:
    return next(row for row in written["graph"] if row[0] == op)


def target(op: str, name: Any) -> Callable[[Any], None]:
    return lambda written: row(written, op).__setitem__(2, name)


HOSTILE: dict[str, tuple[Callable[[Any], None], str]] = {
    **{
        f"function {name}": (target("call_function", name), "not among what a saved graph may do")
        for name in [
            *("os.system", "builtins.eval", "builtins.exec", "torch.load", "torch.hub.load", "operator.attrgetter"),
            *("torch.ops.aten.from_file.default", "torch.ops.load_library.x", "torch.from_file", "torch.Tensor", ""),
            *("operator.methodcaller", "torch.nn.functional.torch", "torch.ops.aten.add.__class__", 3, None),
        ]
    },
    **{
        f"method {name}": (target("call_method", name), "not among what a saved graph may do")
        for name in [
            "__reduce_ex__",
            "__class__",
            "map_",
            "numpy",
            "__getattribute__",
            "register_hook",
            "x(); y",
            ["a"],
        ]
    },
    "attribute": (
        lambda written: row(written, "call_function").__setitem__(
            slice(2, 5), ["builtins.getattr", {"tuple": [{"node": "l_x_"}, "__class__"]}, {"dict": []}]
        ),
        "not among what a saved graph may do",
    ),
    "name": (lambda written: row(written, "call_function").__setitem__(1, "a;import os"), "no name for a new node"),
    "input": (lambda written: row(written, "placeholder").__setitem__(2, "x=print(1)"), "not among"),
    "keyword": (lambda written: row(written, "call_function").__setitem__(4, {"dict": [["a=b", 1]]}), "no arguments"),
    "kind": (lambda written: row(written, "call_function").__setitem__(0, "call_module"), "not among"),
    "later": (
        lambda written: row(written, "call_function").__setitem__(3, {"tuple": [{"node": "output"}]}),
        "before it is made",
    ),
    "no output": (lambda written: written["graph"].pop(), "does not end with its one output"),
    "version": (lambda written: written.update(version=3), "version 3"),
    "torch": (lambda written: written.update(torch="9.1.0"), "of torch 9.1.0"),
    "tree": (
        lambda written: written["signature"].update(out_spec={"registered": ["os.system", None, []]}),
        "registered",
    ),
    "default": (
        lambda written: written["signature"].update(out_spec={"registered": ["collections.defaultdict", "os", []]}),
        "no class is registered",
    ),
    "result": (lambda written: written["signature"]["outputs"][0].update(at=99), "no result 99"),
    "state": (lambda written: written["signature"]["parameters"].update(L_x2_="a"), None),  # type: ignore[dict-item]
    "strides": (lambda written: written["tensors"]["linear.weight"].update(strides=[2**40, 1]), "no strides"),
    "tensor's name": (lambda written: written["tensors"].update({"a b": {"same_as": "mean"}}), "no tensor's name"),
    "another tensor": (lambda written: written["tensors"].update(x={"same_as": "y", "kind": "buffer"}), "same as 'y'"),
    "a transform": (
        lambda written: row(written, "call_function").__setitem__(
            slice(2, 4), ["torch._C._functorch._grad_increment_nesting", {"tuple": []}]
        ),
        "leaves a transform open",
    ),
    "parts": (lambda written: written["signature"].update(more=1), "other parts"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs(name: str, damaged: Path) -> None:
    change, words = HOSTILE[name]
    edit(damaged, change)
    if words is None:
        dynamlir.load(damaged)
    else:
        refused(damaged, words)


def spots(written: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON tree."""
    for key in list(written) if isinstance(written, dict) else range(len(written)):
        yield written, key
        if isinstance(written[key], (dict, list)):
            yield from spots(written[key])


@pytest.mark.parametrize("seed", range(300))
def test_programs_damaged_at_random(seed: int, damaged: Path) -> None:
    """A damaged folder that still loads may hold another program, whose call may fail. Nothing else happens."""
    rng = random.Random(seed)
    odd = [
        None,
        True,
        -1,
        0,
        2**70,
        1.5,
        "",
        "x",
        "torch.add",
        [],
        {},
        {"node": "l_x_"},
        {"float": "nan"},
        {"tuple": [1]},
    ]

    def change(written: Any) -> None:
        for _ in range(rng.choice([1, 1, 2, 5])):
            container, key = rng.choice([*spots(written)])
            match rng.randrange(3):
                case 0:
                    container[key] = rng.choice(odd)
                case 1:
                    other, at = rng.choice([*spots(written)])
                    container[key] = copy.deepcopy(other[at])
                case _:
                    del container[key]

    edit(damaged, change)
    try:
        loaded = dynamlir.load(damaged)
    except ValueError as error:
        assert "no exported program" in str(error)
        return
    assert isinstance(loaded, dynamlir.ExportedProgram)
    pytree.tree_leaves(loaded.signature.in_spec)
