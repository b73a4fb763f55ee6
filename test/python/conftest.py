"""pytest set-up: paths, options and markers, and a clean start for each test."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parents[1] / "scripts"
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python"), str(SCRIPTS / "bench"), str(SCRIPTS)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests marked long, which take hours together")
    parser.addoption(
        "--audit", action="store_true", help="audit each call that the cache answers; a stale entry fails its test"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: worth running before a release and not at each change; needs --long")
    config.addinivalue_line("markers", "stale: makes entries of the cache stale, behind the back of their guards")
    config.addinivalue_line("markers", "unaudited: counts events that an audit adds to; not run with --audit")
    config.addinivalue_line("markers", "whole: what is not captured whole runs as plain Python, as a whole")
    config.addinivalue_line("markers", "gpu: needs a CUDA device; skipped where there is none")
    # Tests about something else run much of their code plain on purpose. `pytest.warns` sees the warning all the same.
    config.addinivalue_line("filterwarnings", "ignore::dynamlir.PlainRunWarning")
    if config.getoption("--long"):
        # Tests decide what to draw when they are defined, in each process.
        os.environ["DYNAMLIR_LONG_TESTS"] = "1"
    if config.getoption("--audit"):
        # Read when the package is imported, also by the processes that tests start.
        os.environ.update(DYNAMLIR_AUDIT="1", DYNAMLIR_ON_AUDIT="error")
    import registration

    registration.ensure()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        long = [item for item in items if item.get_closest_marker("long")]
        if long:
            config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if not item.get_closest_marker("long")]
    for item in items:
        if config.getoption("--audit") and item.get_closest_marker("unaudited"):
            item.add_marker(pytest.mark.skip(reason="counts events that an audit adds to"))


@pytest.fixture(autouse=True, scope="session")
def collections() -> Iterator[None]:
    """At the end the collector looks through all objects again."""
    import dynamlir  # noqa: F401
    import torch._dynamo  # noqa: F401

    yield
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="module")
def collections_of_what_is_new(collections: None) -> None:
    """The collector looks only through the objects that a file's tests create, not each time through all of torch or
    the imports of earlier tests.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def reproducers_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the reproducers of the tests' compiler failures out of the user's own folder."""
    from dynamlir import config, reproducer

    place = reproducer.place
    folder = tmp_path_factory.mktemp("reproducers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            reproducer,
            "place",
            lambda settings: place(settings) if config.reproducers or settings.dump else folder,
        )
        yield


@pytest.fixture(autouse=True)
def whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """With the marker `whole`, frames that cannot be captured whole count one reason and run as plain Python."""
    import dynamlir

    if request.node.get_closest_marker("whole") is None:
        yield
        return
    with dynamlir.config.patch(graph_breaks=False):
        yield


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Starts each test with no compiled functions, no counts and eager's default state."""
    import dynamlir
    import torch
    from dynamlir import native

    torch._dynamo.reset()
    dynamlir.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
    # Such a call runs plain. That is correct, but shows that we forgot a guard.
    assert native.module().unproven() == []
    if request.config.getoption("--audit") and not request.node.get_closest_marker("stale"):
        # A test may have expected an error, and have seen that of a stale entry instead.
        assert dynamlir.audits().differences == []


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> Iterator[int]:
    """Seeds of the programs that a test generates: a few seconds of them, a minute under --long."""
    stop = time.monotonic() + (60 if request.config.getoption("--long") else 5)
    return itertools.takewhile(lambda _: time.monotonic() < stop, itertools.count())


@pytest.fixture
def quiet() -> Iterator[None]:
    """Counts plain runs without a warning or an error."""
    import dynamlir

    with dynamlir.config.patch(on_plain="ignore"):
        yield
