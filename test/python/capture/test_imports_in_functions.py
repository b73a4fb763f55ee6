"""Imports in a compiled function: a module's code sees what it sees in plain Python; failed imports are repeated."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch

X = torch.linspace(-1, 1, 4)
MODULES = {
    "imported_log": "import torch\nwritten = []\nsettings = {'scale': 1.0, 'ready': False}\nTOTAL = torch.zeros(4)\n",
    "imported_reader": "from imported_log import settings, written\nSEEN, SCALE = len(written), settings['scale']\n",
    "imported_summing": "import imported_log\nSUM = imported_log.TOTAL.sum().item()\n",
    "imported_failing": "import imported_log\nif not imported_log.settings['ready']:\n"
    "    raise ValueError('not yet')\nVALUE = 7.0\n",
    "imported_package/__init__": "",
    "imported_package/part": "import imported_log\nSEEN = len(imported_log.written)\n",
    "imported_package/inner/__init__": "",
    "imported_package/inner/program": "from __future__ import annotations\nimport imported_log\n\n"
    "def function(x):\n    imported_log.written.append(1)\n    from .. import part\n    return x + part.SEEN\n",
}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], types.ModuleType]]:
    """Forgets all modules, and imports the one that the others read."""
    for name, text in MODULES.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget() -> None:
        for name in [name for name in sys.modules if name.startswith("imported_")]:
            del sys.modules[name]

    def fresh() -> types.ModuleType:
        forget()
        return __import__("imported_log")

    yield fresh
    forget()


def outcome(call: Callable[[], Any]) -> Any:
    """Returns the result of a call as a list, or the class and the message of the exception that it raises."""
    try:
        return call().tolist()
    except Exception as error:
        return type(error), str(error)


def appends(x: Any) -> Any:
    import imported_log

    imported_log.written.append(1)
    import imported_reader

    return x + imported_reader.SEEN


def stores(x: Any) -> Any:
    import imported_log

    imported_log.settings["scale"] = 3.0
    from imported_reader import SCALE

    return x * SCALE


def replaces(x: Any) -> Any:
    import imported_log

    imported_log.written = [1, 2, 3]
    from imported_reader import SEEN

    return x + SEEN


def fills(x: Any) -> Any:
    from imported_log import TOTAL

    TOTAL[1:].add_(1)
    import imported_summing

    return x + imported_summing.SUM


@pytest.mark.parametrize("function", [appends, stores, replaces, fills])
def test_a_module_sees_what_was_written_before_it_was_imported(log: Any, function: Any) -> None:
    log()
    expected = [function(X) for _ in range(3)]
    log()
    compiled = dynamlir.compile(function)
    assert torch.equal(compiled(X), expected[0])
    # Once the module is loaded, the function is one graph.
    broken = sum(dynamlir.counters()["fallbacks"].values())
    entries = len(compiled._cache)
    assert all(torch.equal(compiled(X), value) for value in expected[1:])
    assert len(compiled._cache) == entries + 1 and sum(dynamlir.counters()["fallbacks"].values()) == broken


def test_a_module_of_a_package_does_as_well(log: Any) -> None:
    def calls(wrap: Callable[[Any], Any]) -> list[Any]:
        log()
        from imported_package.inner.program import function

        wrapped = wrap(function)
        return [wrapped(X) for _ in range(3)]

    expected, found = calls(lambda function: function), calls(dynamlir.compile)
    assert all(map(torch.equal, found, expected))


def test_what_is_loaded_breaks_no_graph(log: Any) -> None:
    log()
    import imported_reader  # noqa: F401

    compiled = dynamlir.compile(appends, fullgraph=True)
    assert all(torch.equal(compiled(X), X) for _ in range(3))


def test_an_import_that_comes_first_breaks_no_graph(log: Any) -> None:
    def function(x: Any) -> Any:
        import imported_reader

        return x + imported_reader.SEEN

    log().written.append(1)
    compiled = dynamlir.compile(function, fullgraph=True)
    assert all(torch.equal(compiled(X), X + 1) for _ in range(3))


def fails(x: Any) -> Any:
    from imported_failing import VALUE

    return x + VALUE


def caught(x: Any) -> Any:
    try:
        import imported_failing
    except ValueError:
        return x - 1
    return x + imported_failing.VALUE


def missing(x: Any) -> Any:
    try:
        import imported_nowhere
    except ImportError:
        return x - 1
    return x + imported_nowhere.VALUE


@pytest.mark.parametrize("function", [fails, caught])
def test_what_fails_is_tried_again(log: Any, function: Any) -> None:
    def calls(function: Any) -> list[Any]:
        settings = log().settings
        found = [outcome(lambda: function(X)) for _ in range(2)]
        settings["ready"] = True
        return found + [outcome(lambda: function(X)) for _ in range(2)]

    expected = calls(function)
    assert expected[1] != expected[2]
    assert calls(dynamlir.compile(function)) == expected


def test_what_is_not_there_may_come(log: Any, tmp_path: Path) -> None:
    log()
    compiled = dynamlir.compile(missing)
    assert all(torch.equal(compiled(X), X - 1) for _ in range(2))
    sys.modules["imported_nowhere"] = module = types.ModuleType("imported_nowhere")
    module.VALUE = 2.0  # type: ignore[attr-defined]
    assert all(torch.equal(compiled(X), X + 2) for _ in range(2))
