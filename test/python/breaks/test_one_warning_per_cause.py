"""Causes outside any single function (an argument, an observer, an active mode) are reported once for all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import config
from plain_world import DOORS, X, heard
from torch import Tensor


class Image(Tensor):
    """A tensor subclass, like those of libraries."""


def image() -> Tensor:
    return X.clone().as_subclass(Image)


def brighter(pixels: Tensor) -> Tensor:
    return pixels * 2


def darker(pixels: Tensor) -> Tensor:
    return pixels * 0.5


def both(pixels: Tensor) -> Tensor:
    return brighter(pixels) * darker(pixels)


FUNCTIONS = [brighter, darker, both]
PASSED: dict[str, tuple[Callable[[], Tensor], str]] = {
    "subclass": (image, "Image in pixels"),
    "layout": (X.to_sparse, "torch.sparse_coo in pixels"),
    "device": (lambda: X.to("meta"), "meta in pixels"),
    "lazy-bit": (lambda: torch.view_as_complex(torch.ones(3, 2)).conj(), "pixels"),
}


@pytest.mark.parametrize("reason", PASSED)
def test_what_is_passed(reason: str) -> None:
    make, told = PASSED[reason]
    said = [warning for f in FUNCTIONS for warning in heard(dynamlir.compile(f), make())]
    (warning,) = said
    text = str(warning.message)
    assert f": {reason}" in text and f"({told})" in text and "Said once for all functions" in text
    assert dynamlir.counters()["fallbacks"][reason] >= len(FUNCTIONS)


def test_what_is_passed_by_attributes() -> None:
    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kept = {"mask": X.to_sparse()}

        def forward(self, x: Tensor) -> Tensor:
            return (self.kept["mask"] * x).to_dense()

    (warning,) = heard(dynamlir.compile(Holder()), X)
    assert "self.kept['mask']" in str(warning.message)


def test_another_reason_is_said_as_well() -> None:
    functions = [*FUNCTIONS, lambda pixels: pixels * 3]
    pairs = zip(functions, PASSED.values(), strict=True)
    said = [str(w.message) for function, (make, _) in pairs for w in heard(dynamlir.compile(function), make())]
    assert [text.split(": ")[1].split(" ")[0] for text in said] == list(PASSED)


def test_a_switch_is_for_each_call() -> None:
    with config.patch(on_plain="error"):
        for function in (brighter, darker):
            for _ in range(2):
                with pytest.raises(dynamlir.Unsupported, match="subclass"):
                    dynamlir.compile(function)(image())
    assert len(heard(dynamlir.compile(brighter), image())) == 1


def test_who_watches() -> None:
    compiled = [dynamlir.compile(function) for function in FUNCTIONS]

    def watched() -> None:
        sys.settrace(lambda *_: None)
        try:
            for function in compiled:
                function(X)
        finally:
            sys.settrace(None)

    (warning,) = heard(watched)
    assert "observed" in str(warning.message) and "for all functions" in str(warning.message)
    assert dynamlir.counters()["fallbacks"] == {"observed": len(FUNCTIONS)}
    assert heard(watched) == []
    for function in compiled:
        function(X)
    assert dynamlir.counters()["graphs"] == len(FUNCTIONS)


def test_who_watches_from_several_threads() -> None:
    def watched() -> None:
        sys.setprofile(lambda *_: None)
        for function in FUNCTIONS:
            dynamlir.compile(function)(X)
        sys.setprofile(None)

    def call() -> None:
        threads = [threading.Thread(target=watched) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(heard(call)) == 1


@pytest.mark.parametrize("door", list(DOORS))
def test_dispatch_keys_are_named(door: str) -> None:
    compiled = [DOORS[door](function) for function in FUNCTIONS]
    for function in compiled if door == "torch.compile" else ():
        function(X)

    def call() -> None:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.Conjugate)):
            for function in compiled:
                function(X)

    said = [str(warning.message) for warning in heard(call)]
    assert len(said) == 1 and "dispatch-keys" in said[0] and "(excluded: Conjugate)" in said[0]


def test_handlers_of_a_subclass_are_named() -> None:
    compiled = [dynamlir.compile(function) for function in FUNCTIONS]

    class Wrapper(Tensor):
        inner: Tensor

        @staticmethod
        def __new__(cls, inner: Tensor) -> Wrapper:
            made: Any = Tensor._make_wrapper_subclass(cls, inner.shape)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return Wrapper(sum(function(args[0].inner) for function in compiled))

    (warning,) = heard(lambda: Wrapper(X) + 1)
    assert "dispatch-keys" in str(warning.message) and "(excluded: " in str(warning.message)
    assert "the __torch_dispatch__ that it is called from" in str(warning.message)


def test_transforms_and_modes() -> None:
    compiled = [dynamlir.compile(function) for function in FUNCTIONS]

    def mapped() -> None:
        for function in compiled:
            torch.vmap(lambda row, function=function: function(row))(torch.ones(2, 3))  # type: ignore[misc]

    (warning,) = heard(mapped)
    assert "transform" in str(warning.message) and warning.filename == __file__
