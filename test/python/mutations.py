"""Seeded damage to dumped stages, and a worker process that loads the results.

`mutate` turns one correct text into a damaged one. `replay` hands files to workers (this file, run as a program), which
load and call each and report the outcome. A worker that dies is replaced, and the file that killed it is known.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 60
"""The limit for one file; a loop that became endless is not a crash."""

NUMBER = re.compile(r"(?<![\w%@#.])-?\d+(?![\w.])")
SIZE = re.compile(r"(?<=[<x])\d+(?=x)")
VALUE = re.compile(r"%[\w#]+")
ELEMENT = re.compile(r"(?<=[x<( ])(?:f64|f32|bf16|f16|i64|i32|i16|i8|ui8|i1)\b")
TYPE = re.compile(r"(?:tensor|memref|!dynamo\.tensor)<[^<>]*(?:<[^<>]*>[^<>]*)*>")
OPERATION = re.compile(r"\bdynamo\.[a-z_0-9]+|\bmemref\.\w+")
SCHEMA = re.compile(r"\baten\.\w+\.\w+")
SYMBOL = re.compile(r"(?<=@kernels::)@\w+")
ATTRIBUTE = re.compile(r"[\w.]+ = (?:array<[^>]*>|\[[^\]]*\]|\"[^\"]*\"|-?[\d.e+]+(?: : \w+)?),? ?")


Lines = list[str]
Editable = Callable[[Sequence[str]], Sequence[int]]


def _swap(source: random.Random, line: str, pattern: re.Pattern[str], choices: Callable[[str], Sequence[str]]) -> str:
    """``line`` with one match of ``pattern`` replaced by one of its ``choices``."""
    found = list(pattern.finditer(line))
    if not found:
        return line
    match = source.choice(found)
    return line[: match.start()] + source.choice(choices(match.group())) + line[match.end() :]


def _numbers(text: str) -> list[str]:
    value = int(text)
    near = [value + 1, value - 1, value * 2, value // 2, value + 8, -value]
    return [str(number) for number in [*near, 0, 1, -1, 3, 2**31, 2**62, 2**63 - 1, -(2**63)]] + ["?"]


def _matches(lines: Sequence[str], pattern: re.Pattern[str]) -> list[str]:
    return sorted({match for line in lines for match in pattern.findall(line)}) or ["x"]


def _number(source: random.Random, lines: Lines, at: int) -> None:
    lines[at] = _swap(source, lines[at], NUMBER, _numbers)


def _value(source: random.Random, lines: Lines, at: int) -> None:
    """Replaces a value by another one, of the same type if possible."""
    function = _function(lines, at)
    types = {name: kind for line in function for name, kind in _typed(line)}

    def same(name: str) -> list[str]:
        return [other for other, kind in types.items() if kind == types.get(name) and other != name] or _matches(
            function, VALUE
        )

    made, equals, user = lines[at].rpartition(" = ")
    lines[at] = made + equals + _swap(source, user, VALUE, same)


def _function(lines: Lines, at: int) -> Lines:
    """The lines of the function that contains line ``at``: names have no meaning beyond it."""
    heads = [i for i, line in enumerate(lines) if re.match(r"\s*(?:func|llvm)\.func", line)]
    start = max([i for i in heads if i <= at], default=0)
    return lines[start : min([i for i in heads if i > at], default=len(lines))]


def _typed(line: str) -> list[tuple[str, str]]:
    """The values whose types a line names: arguments of functions, operands of launches and calls."""
    found = re.findall(r"(%[\w#]+): (" + TYPE.pattern + ")", line)
    call = re.search(r"\(((?:%[\w#]+(?:, )?)+)\).* : \((.*?)\) -> ", line)
    if call:
        found += zip(call.group(1).split(", "), TYPE.findall(call.group(2)))
    made = re.match(r"\s*(%[\w#]+) = .*[ :](" + TYPE.pattern + ")$", line)
    return [*found, (made.group(1), made.group(2))] if made else found


def _operand(source: random.Random, lines: Lines, at: int) -> None:
    """Replaces an operand together with its type, so that the text still parses."""
    mine = _typed(lines[at])
    others = [pair for line in _function(lines, at) for pair in _typed(line)]
    if not mine or not others:
        return
    (name, kind), (other, other_kind) = source.choice(mine), source.choice(others)
    lines[at] = re.sub(re.escape(name) + r"\b", other, lines[at], count=1).replace(
        kind, other_kind, source.choice([1, 1, 2])
    )


def _type(source: random.Random, lines: Lines, at: int) -> None:
    """Changes a type wherever it occurs in the text, or on one line."""
    found = TYPE.findall(lines[at])
    if not found:
        return
    old = source.choice(found)
    pattern = source.choice([SIZE, SIZE, NUMBER, ELEMENT])
    elements = ["f64", "f32", "bf16", "i64", "i32", "i8", "ui8", "i1", "index"]
    sizes = [
        lambda size: [str(int(size) + 1), str(int(size) * 2), str(int(size) // 2), "0", "1", "?"],
        lambda _: elements,
    ]
    new = _swap(source, old, pattern, sizes[1] if pattern is ELEMENT else sizes[0] if pattern is SIZE else _numbers)
    places = range(len(lines)) if source.random() < 0.7 else [at]
    for place in places:
        lines[place] = lines[place].replace(old, new)


def _window(source: random.Random, lines: Lines, at: int) -> None:
    """Moves the window of a `memref.reinterpret_cast`, and changes its type accordingly, here and at its uses."""
    casts = [i for i, line in enumerate(lines) if "memref.reinterpret_cast" in line]
    if not casts:
        return
    at = source.choice(casts)
    numbers = [[int(n) for n in part.split(", ") if n] for part in re.findall(r"\[([-\d, ]*)\]", lines[at])[:3]]
    old = lines[at].rsplit(" to ", 1)[1]
    name = lines[at].split("=")[0].strip()
    part = source.choice([part for part in numbers if part])
    place = source.randrange(len(part))
    part[place] += source.choice([-8, -1, 1, 1, 2, 8, 1000, 2**40])
    (offset,), sizes, strides = numbers
    layout = f"strided<[{', '.join(map(str, strides))}]" + (f", offset: {offset}>" if offset else ">")
    new = "memref<" + "".join(f"{size}x" for size in sizes) + ELEMENT.findall(old)[0] + f", {layout}>"
    lists = ", ".join(f"{word}: [{', '.join(map(str, n))}]" for word, n in zip(("offset", "sizes", "strides"), numbers))
    lines[at] = (
        re.sub(r"offset: \[.*?\], sizes: \[.*?\], strides: \[.*?\]", lists, lines[at]).rsplit(" to ", 1)[0]
        + " to "
        + new
    )
    for i in range(len(lines)):
        if i != at and re.search(re.escape(name) + r"\b", lines[i]):
            lines[i] = lines[i].replace(old, new)


def _operation(source: random.Random, lines: Lines, at: int) -> None:
    lines[at] = _swap(source, lines[at], OPERATION, lambda _: _matches(lines, OPERATION))


def _symbol(source: random.Random, lines: Lines, at: int) -> None:
    launches = [i for i, line in enumerate(lines) if "dynamo.launch" in line] or [at]
    at = source.choice(launches)
    lines[at] = _swap(source, lines[at], SYMBOL, lambda _: _matches(lines, SYMBOL))


def _attribute(source: random.Random, lines: Lines, at: int) -> None:
    instead = ["", "dynamo.name = 3, ", "dynamo.storage = 0 : i64, ", "dynamo.storage = 1 : i64, ", "dynamo.kernel, "]
    lines[at] = _swap(source, lines[at], ATTRIBUTE, lambda _: instead)


def _call(source: random.Random, lines: Lines, at: int) -> None:
    """Replaces an operator or its arguments."""
    calls = [i for i, line in enumerate(lines) if SCHEMA.search(line)] or [at]
    at = source.choice(calls)
    if source.random() < 0.5:
        strange = [
            "aten.resize_.default",
            "aten.size.int",
            "aten.sum.default",
            "aten.gone.x",
            "aten.mul_.Tensor",
            "aten.t.default",
        ]
        lines[at] = _swap(source, lines[at], SCHEMA, lambda _: [*_matches(lines, SCHEMA), *strange])
    else:
        values = [
            "#dynamo.operand<0>",
            "#dynamo.operand<1>",
            "1",
            "true",
            "unit",
            "[]",
            "f32",
            "0.5",
            '"x"',
            "[#dynamo.operand<0>, 3]",
        ]
        argument = re.compile(r"(?<=[\[ ])(?:#dynamo\.\w+<[^>]*>|unit|true|false|[\d.e+-]+(?: : \w+)?)(?=[,\]])")
        lines[at] = _swap(source, lines[at], argument, lambda old: [*values, f"{old}, {old}"])


def _output(source: random.Random, lines: Lines, at: int) -> None:
    kinds = [
        "result 0",
        "result 7",
        "arg 0",
        "arg 9",
        "same 0",
        "same 1",
        "none",
        "constant 5",
        "arg_view 0, [2], [1], 0",
    ]
    kinds += [
        "arg_view 0, [2], [1], 1000000",
        "result_view 0, [3], [1], 1000",
        "result_view 0, [2], [-1], 1",
        "result_view 0, [9, 9], [9, 1], 0",
    ]
    entry = re.compile(r"(?<=#dynamo\.output<)[^>]*")
    places = [i for i, line in enumerate(lines) if entry.search(line)] or [at]
    at = source.choice(places)
    lines[at] = _swap(source, lines[at], entry, lambda _: kinds)


def _order(source: random.Random, lines: Lines, at: int) -> None:
    """Drops, duplicates or moves lines."""
    line = lines.pop(at)
    if source.random() < 0.7:
        lines.insert(max(0, min(len(lines), at + source.choice([-9, -3, -1, 1, 2, 5]))), line)
    if source.random() < 0.2:
        lines.insert(at, line)


def _characters(source: random.Random, lines: Lines, at: int) -> None:
    line = lines[at]
    start = source.randrange(len(line) + 1)
    end = min(len(line), start + source.choice([0, 1, 1, 4]))
    lines[at] = line[:start] + source.choice(["", "-", "0", "[", ">", '"', "x", ", ", "%"]) + line[end:]


KINDS = [
    _number,
    _number,
    _value,
    _operand,
    _operand,
    _type,
    _type,
    _window,
    _window,
    _operation,
    _symbol,
    _attribute,
    _call,
    _output,
]
KINDS += [_order, _characters]


def mutate(text: str, seed: int, editable: Editable) -> str:
    """Applies one to three changes, starting at lines that ``editable`` names."""
    source = random.Random(seed)
    lines = text.split("\n")
    for _ in range(source.choice([1, 1, 1, 2, 3])):
        source.choice(KINDS)(source, lines, source.choice(editable(lines)))
    return "\n".join(lines)


def everything(lines: Sequence[str]) -> list[int]:
    """Every line with content."""
    return [at for at, line in enumerate(lines) if line.strip() not in ("", "}")]


def around_code(lines: Sequence[str]) -> list[int]:
    """The graph function and the heads of kernels: from stage 05 on the bodies are code."""
    kernels = next((at for at, line in enumerate(lines) if "module @kernels" in line), len(lines))
    heads = [at for at in range(kernels, len(lines)) if re.match(r"\s*(?:func|llvm)\.func", lines[at])]
    return [at for at in everything(lines) if at <= kernels] + heads


def replay(files: Sequence[Path], inputs: Path) -> dict[Path, str]:
    """The outcome for each file: ``refused``, ``ran``, ``failed``, and ``bug`` or ``died``, each with details."""
    outcomes: dict[Path, str] = {}
    left = list(files)
    while left:
        command = [sys.executable, __file__, str(inputs), *map(str, left)]
        made = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
        started = left[0]
        for row in made.stdout.splitlines():
            verb, _, rest = row.partition("\t")
            if verb == "start":
                started = Path(rest)
            elif verb == "end":
                outcomes[started] = rest
        if made.returncode == 0:
            break
        outcomes[started] = f"died: {made.returncode}: {made.stderr[-800:]}"
        left = left[left.index(started) + 1 :]
    return outcomes


def _environment() -> dict[str, str]:
    """The environment with glibc's checking allocator, if it is installed: it aborts on the first damaged block."""
    # Next to the C library of this interpreter, which need not be the system's.
    mapped = re.findall(r"\S+/libc\.so\.6$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    library = Path(mapped[0] if mapped else "/").with_name("libc_malloc_debug.so.0")
    checks = {"LD_PRELOAD": str(library), "MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"} if library.exists() else {}
    return {**os.environ, **checks, "OMP_NUM_THREADS": "2"}


def _work(inputs: Path, files: Sequence[str]) -> None:
    """Runs in the worker: loads each file and calls it with fresh inputs."""
    import resource
    import signal

    sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]
    import dynamlir
    import torch
    from dynamlir import _native

    limit = 24 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    given = torch.load(inputs)
    for file in files:
        print(f"start\t{file}", flush=True)
        signal.alarm(SECONDS)
        outcome = "ran"
        try:
            executable = dynamlir.load(file, stage=Path(file).stem.partition("_")[0])
            tensors = [tensor.clone() for tensor in given]
            for _ in range(2):
                outputs = executable(*tensors)
                # Reads every output, to detect a tensor over freed memory.
                [output.clone() for output in outputs if isinstance(output, torch.Tensor)]
        except ValueError as error:
            outcome = f"refused: {error}"
        except _native.RunError as error:
            outcome = f"failed: {error}"
        except BaseException as error:
            outcome = f"bug: {type(error).__name__}: {error}"
        print("end\t" + outcome.replace("\n", " | "), flush=True)


if __name__ == "__main__":
    _work(Path(sys.argv[1]), sys.argv[2:])
