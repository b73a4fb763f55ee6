"""``bench``: the user's own function by eager, inductor and dynamlir, in interleaved rounds, with compile times."""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from . import callables, printing
from .failures import Failure, of_program

HELP = "measure your function: eager, inductor, dynamlir"
DESCRIPTION = """\
Calls a function by eager, inductor and dynamlir in turns, so that all of
them see the same state of the machine, and prints the median times of a
call, ratios with their spread, and the times of the first calls. The results
are compared with eager's.

The function is named as module:function or file.py:function; a subclass of
torch.nn.Module is created without arguments. A file alone has a function
`make`, which returns (function, arguments) or (function, arguments, dict)."""
EXAMPLES = """\
  python -m dynamlir bench model.py:Net --inputs 'torch.randn(8, 64)'
  python -m dynamlir bench my_package.layers:attention --inputs 'x(), x()'
  python -m dynamlir bench case.py --train --seconds 20"""

ROUNDS = 30
"""The number of rounds, if there is time for them."""
LEAST = 5
"""The number of rounds that are made in any case."""
SLICE = 0.002
"""The seconds that one measurement takes at least: a clock is not exact enough for single fast calls."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("function", help="module:function, file.py:function, or a file with a function `make`")
    callables.add_inputs(parser)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to measure at most (default: 10)")
    parser.add_argument("--mode", help="torch.compile's mode, for both compilers: default, max-autotune, …")
    parser.add_argument(
        "--train", action="store_true", help="measure forward and backward; without it, gradients are off"
    )
    parser.add_argument("--torch-compile", action="store_true", help="use dynamlir as a backend of torch.compile")
    parser.add_argument("--no-inductor", action="store_true", help="leave inductor out")
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def before_import(arguments: argparse.Namespace) -> bool:
    """Returns false: the package is what is measured."""
    return False


TRIES = 5
"""The number of measurements in a round. The fastest one counts, since other programs only make a call slower."""
BUSY = 1.3
"""The ratio of the quartiles of the same call's times from which on the machine is taken to be busy."""


class Contestant:
    """One way to call the function."""

    def __init__(self, name: str, call: Callable[[], Any]) -> None:
        self.name = name
        self.call = call
        self.first = 0.0
        """Seconds of the first call, which compiles."""
        self.result: Any = None
        self.difference = 0.0
        self.repeat = 1
        self.times: list[float] = []


def main(arguments: argparse.Namespace) -> int:
    """Prints the measurements; returns 1 if a result is not eager's."""
    if not arguments.seconds > 0:
        raise Failure("--seconds has to be a positive number")
    found = callables.find(arguments.function, arguments.inputs)
    _check_mode(arguments.mode)
    eager = Contestant("eager", _call(found.function, found, arguments.train))
    if (error := _first(eager)) is not None:
        print(of_program(error), file=sys.stderr)
        return 1
    contestants, notes = [eager], []
    for name, compiled in _compilers(found.function, arguments).items():
        one = Contestant(name, _call(compiled, found, arguments.train))
        if (error := _first(one)) is None:
            one.difference = _difference(one.result, eager.result)
            contestants.append(one)
        else:
            notes.append(f"{name} is left out: {_why(error)}")
    for one in contestants:
        one.result = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # plain runs are listed below
        _measure(contestants, arguments.seconds)
    plain = _plain()
    notes += [
        f"{one.name}'s result differs from eager's by {one.difference:.2g}" for one in contestants if one.difference
    ]
    if any(_spread(one) > BUSY for one in contestants):
        notes.append("The times of a call vary much: other programs may be running. --seconds 60 measures longer.")
    if arguments.json:
        _print_json(found, contestants, notes, plain)
    else:
        _print(found, contestants, notes, plain)
    return 1 if any(one.difference for one in contestants) else 0


def _check_mode(mode: str | None) -> None:
    from .. import options  # complete by now

    if mode is not None and mode not in options.MODES:
        raise Failure(f"--mode: unknown mode {mode!r}; known: {', '.join(options.MODES)}")


def _compilers(function: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the compiled forms of the function; nothing is compiled yet."""
    import torch  # as above

    import dynamlir  # complete by now

    made: dict[str, Any] = {}
    mode = {} if arguments.mode is None else {"mode": arguments.mode}
    if not arguments.no_inductor:
        made["inductor"] = torch.compile(function, **mode)
    if arguments.torch_compile:
        made["dynamlir"] = torch.compile(function, backend=dynamlir.backend, **mode)
    else:
        made["dynamlir"] = dynamlir.compile(function, **mode)
    return made


def _call(function: Any, found: callables.Found, train: bool) -> Callable[[], Any]:
    """Returns a call of the function, with its gradients or without."""
    import torch  # complete by now

    def forward() -> Any:
        with torch.no_grad():
            return function(*found.arguments, **found.named)

    def step() -> Any:
        made = function(*found.arguments, **found.named)
        losses = [one.sum() for one in _tensors(made) if one.requires_grad]
        if losses:
            torch.stack([loss.float() for loss in losses]).sum().backward()
        return made

    if not train:
        return forward
    parameters = [*found.function.parameters()] if isinstance(found.function, torch.nn.Module) else []
    leaves = [one for one in [*parameters, *_tensors(found.arguments), *_tensors(found.named)] if one.requires_grad]
    if not leaves:
        raise Failure("--train: neither the module nor the inputs have a tensor that requires a gradient")

    def trained() -> Any:
        for leaf in leaves:
            leaf.grad = None
        made = step()
        return [made, [leaf.grad for leaf in leaves]]

    return trained


def _first(one: Contestant) -> BaseException | None:
    """Makes the first call, and keeps its result. Returns its error."""
    import torch  # complete by now

    torch.manual_seed(0)
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.result = _copied(one.call())
            _synchronize()
    except Exception as error:
        return error
    one.first = time.perf_counter() - started
    return None


def _why(error: BaseException) -> str:
    """Returns the reason that a compiler cannot be measured, in a line."""
    text = str(error)
    if "InvalidCxxCompiler" in text or type(error).__name__ == "InvalidCxxCompiler" or "C++ compiler" in text:
        return "it needs a C++ compiler, and finds none that works (CXX)"
    if "triton" in text.lower():
        return "it needs Triton, which is missing or does not work"
    lines = [line for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def _synchronize() -> None:
    torch: Any = sys.modules["torch"]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _measure(contestants: list[Contestant], seconds: float) -> None:
    """Fills in the times of a call: in each round, all contestants in another order."""
    for one in contestants:
        # The second call may compile another time, for sizes or for torch's own state.
        one.call()
        took = min(_timed(one, 1) for _ in range(3))
        one.repeat = max(1, math.ceil(SLICE / max(took, 1e-9)))
    order, until = random.Random(0), time.perf_counter() + seconds
    rounds = 0
    while rounds < LEAST or (rounds < ROUNDS and time.perf_counter() < until):
        for one in order.sample(contestants, len(contestants)):
            one.times.append(min(_timed(one, one.repeat) for _ in range(TRIES)))
        rounds += 1


def _timed(one: Contestant, repeat: int) -> float:
    started = time.perf_counter()
    for _ in range(repeat):
        one.call()
    _synchronize()
    return (time.perf_counter() - started) / repeat


def _tensors(value: Any) -> list[Any]:
    torch: Any = sys.modules["torch"]
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _copied(value: Any) -> list[Any]:
    return [one.detach().clone() for one in _tensors(value)]


def _difference(found: list[Any], expected: list[Any]) -> float:
    """Returns the largest difference from eager's result; 0 where it is as small as rounding makes it."""
    torch: Any = sys.modules["torch"]
    worst = 0.0
    if len(found) != len(expected):
        return math.inf
    for one, other in zip(found, expected):
        if one.shape != other.shape or one.dtype != other.dtype:
            return math.inf
        wide = torch.float64 if one.is_floating_point() else None
        loose = 3e-2 if one.dtype in (torch.float16, torch.bfloat16) else 1e-3
        one, other = one.to(wide) if wide else one, other.to(wide) if wide else other
        if not torch.allclose(one, other, rtol=loose, atol=loose, equal_nan=True):
            worst = max(worst, float((one - other).abs().max()) if one.dtype != torch.bool else 1.0)
    return worst


def _plain() -> list[str]:
    """Returns the reasons for which dynamlir ran plain Python, each once."""
    import dynamlir  # complete by now

    return list(dict.fromkeys(str(event) for event in dynamlir.fallbacks()))


def _quartiles(values: list[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[last // 4], ordered[last // 2], ordered[last - last // 4]


def _spread(one: Contestant) -> float:
    low, _, high = _quartiles(one.times)
    return high / max(low, 1e-9)


def _ratios(contestants: list[Contestant]) -> dict[str, tuple[float, float, float]]:
    """Returns how many times as fast as the others dynamlir is: the quartiles over the rounds."""
    own = next((one for one in contestants if one.name == "dynamlir"), None)
    if own is None:
        return {}
    others = [one for one in contestants if one is not own]
    return {one.name: _quartiles([a / b for a, b in zip(one.times, own.times)]) for one in others}


def _print(found: callables.Found, contestants: list[Contestant], notes: list[str], plain: list[str]) -> None:
    torch: Any = sys.modules["torch"]
    threads = torch.get_num_threads()
    print(printing.wrapped(f"{found.name}: {_described(found)}"))
    rounds, spread = len(contestants[0].times), "quartiles"
    print(printing.wrapped(f"{rounds} rounds, {threads} thread{'' if threads == 1 else 's'}; {spread} in parentheses"))
    print(f"\n{'':10}{'per call':>10}{'':16}{'first':>8}".rstrip())
    for one in contestants:
        low, middle, high = _quartiles(one.times)
        text = f"({_time(low, middle)}–{_time(high, middle)})"
        first = "" if one.name == "eager" else f"{one.first:.2f} s"
        print(f"{one.name:10}{_time(middle):>10} {text:15}{first:>8}".rstrip())
    print()
    for name, (low, middle, high) in _ratios(contestants).items():
        print(printing.wrapped(f"dynamlir is {middle:.2f} times as fast as {name} ({low:.2f}–{high:.2f})"))
    for note in notes:
        print(printing.wrapped(note, "", "  "))
    if plain:
        print(printing.wrapped("dynamlir ran a part of it as plain Python:"))
        for line in plain:
            print(printing.wrapped(line, "  ", "  "))


def _described(found: callables.Found) -> str:
    """Returns the types and sizes of the inputs."""
    texts = []
    for value in [*found.arguments, *found.named.values()]:
        tensors = _tensors(value)
        if not tensors:
            texts.append(f"{value!r:.20}")
        for one in tensors:
            sizes = "x".join(map(str, one.shape)) or "scalar"
            texts.append(f"{sizes} {str(one.dtype).removeprefix('torch.')}" + f" on {one.device}" * one.is_cuda)
    return ", ".join(texts[:8]) + (", …" if len(texts) > 8 else "") or "without inputs"


def _time(seconds: float, like: float | None = None) -> str:
    """Returns a time with its unit; in the unit of ``like``, without it, if that is given."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if (seconds if like is None else like) * factor >= 1 or unit == "µs":
            number = f"{seconds * factor:.3g}"
            number = number if "e" not in number else f"{seconds * factor:.0f}"
            return number if like is not None else f"{number} {unit}"
    raise AssertionError  # the last unit is always taken


def _print_json(found: callables.Found, contestants: list[Contestant], notes: list[str], plain: list[str]) -> None:
    torch: Any = sys.modules["torch"]
    made = {
        "function": found.name,
        "inputs": _described(found),
        "threads": torch.get_num_threads(),
        "rounds": len(contestants[0].times),
        "contestants": {
            one.name: {"seconds": one.times, "first_call": one.first, "difference": one.difference}
            for one in contestants
        },
        "ratios": {name: list(quartiles) for name, quartiles in _ratios(contestants).items()},
        "notes": notes,
        "plain": plain,
    }
    json.dump(made, sys.stdout, indent=1, ensure_ascii=False)
    print()
