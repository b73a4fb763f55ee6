"""Several threads use dynamlir at the same time, as their first action: each finds the backend, and gets eager's
results.
"""

from __future__ import annotations

import threading
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import dynamlir
import pytest
import torch
from dynamlir import entry_point
from torch._dynamo.backends import registry

GROUP = "torch_dynamo_backends"
PROJECT = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]
VALUE = PROJECT["entry-points"][GROUP]["dynamlir"]


@pytest.fixture
def unknown(monkeypatch):
    """Resets the state: torch knows the entry point, and nothing has loaded it."""
    registry.list_backends()
    monkeypatch.setitem(registry._BACKENDS, "dynamlir", EntryPoint("dynamlir", VALUE, GROUP))
    monkeypatch.setitem(registry._COMPILER_FNS, "dynamlir", dynamlir.backend)
    monkeypatch.setattr(entry_point, "_since", None)
    del registry._COMPILER_FNS["dynamlir"]


def at_once(work, count=8):
    """The result or exception of each of these concurrent threads."""
    barrier, found = threading.Barrier(count), [None] * count

    def run(at):
        barrier.wait(60)
        try:
            found[at] = work(at)
        except Exception as error:
            found[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


def test_all_find_the_backend(unknown, monkeypatch):
    """All of them load the entry point before the first one has registered it."""
    loads = threading.Barrier(8)
    load = EntryPoint.load

    def loaded_together(self):
        loads.wait(60)
        return load(self)

    monkeypatch.setattr(EntryPoint, "load", loaded_together)
    assert at_once(lambda at: registry.lookup_backend("dynamlir")) == [dynamlir.backend] * 8
    assert registry.lookup_backend("dynamlir") is dynamlir.backend


def test_one_that_never_came_to_the_registry(unknown, monkeypatch):
    monkeypatch.setattr(entry_point, "_PATIENCE", 0.01)
    assert EntryPoint("dynamlir", VALUE, GROUP).load() is dynamlir.backend
    assert registry.lookup_backend("dynamlir") is dynamlir.backend


def test_all_compile(unknown):
    def work(at):
        compile_ = dynamlir.compile if at % 2 else lambda f: torch.compile(f, backend="dynamlir")
        return compile_(lambda x: x * 2 + at)(torch.ones(2)).tolist()

    assert at_once(work, 4) == [[2.0 + at] * 2 for at in range(4)]


def test_nothing_else_is_found_there():
    with pytest.raises(AttributeError, match="missing"):
        _ = entry_point.missing
