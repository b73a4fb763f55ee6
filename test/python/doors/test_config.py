"""`dynamlir.config`: the values that may be set, by whom and for how long; an invalid setting changes nothing else."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from pathlib import Path
from typing import Any

import dynamlir
import forked
import pytest
import torch
from dynamlir import config


def everything() -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.SETTINGS}


def test_defaults() -> None:
    assert everything() == {
        "on_plain": "warn",
        "recompile_limit": 8,
        "accumulated_recompile_limit": 256,
        "unroll_limit": 2_000,
        "dump": None,
        "threads": None,
        "no_cache": False,
        "max_autotune": False,
        "cache_dir": None,
        "eager_random": False,
        "memory_budget": None,
        "reproducers": None,
        "report": None,
        "progress": True,
        "graph_breaks": True,
        "audit": False,
        "on_audit": "warn",
        "break_every": None,
        "check": False,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("on_plain", "warning"),
        ("on_plain", None),
        ("on_plain", 1),
        ("on_plain", torch.ones(3)),
        ("on_plain", ["warn"]),
        ("recompile_limit", 0),
        ("recompile_limit", -1),
        ("recompile_limit", True),
        ("recompile_limit", 8.0),
        ("recompile_limit", None),
        ("recompile_limit", 1 << 80),
        ("accumulated_recompile_limit", "8"),
        ("unroll_limit", "100"),
        ("threads", 0),
        ("threads", "2"),
        ("dump", 3),
        ("dump", b"folder"),
        ("dump", ""),
        ("no_cache", 1),
        ("no_cache", None),
        ("max_autotune", "yes"),
        ("cache_dir", object()),
        ("memory_budget", -0.1),
        ("memory_budget", 50),
        ("memory_budget", float("nan")),
        ("memory_budget", True),
        ("memory_budget", "0.5"),
    ],
)
def test_a_wrong_value_is_an_error_and_changes_nothing(name: str, value: object) -> None:
    before = everything()
    for change in (
        lambda: setattr(config, name, value),
        lambda: config.patch({name: value}).__enter__(),
        lambda: config.patch(name, value).__enter__(),
        lambda: config.patch(recompile_limit=3, **{name: value}).__enter__() if name != "recompile_limit" else 1 / 0,
    ):
        with pytest.raises((ValueError, ZeroDivisionError)) as raised:
            change()
        assert raised.type is ZeroDivisionError or (name in str(raised.value) and "expected" in str(raised.value))
    assert everything() == before


def test_a_wrong_name_is_an_error_that_knows_better() -> None:
    for change in (
        lambda: setattr(config, "recompile_limt", 3),
        lambda: getattr(config, "recompile_limt"),  # noqa: B009
        lambda: delattr(config, "recompile_limt"),
        lambda: config.patch(recompile_limt=3).__enter__(),
    ):
        with pytest.raises(AttributeError, match="did you mean 'recompile_limit'"):
            change()
    with pytest.raises(AttributeError, match="known: on_plain"):
        config.zzz = 3
    assert not hasattr(config, "zzz")


def test_a_patch_ends_as_it_began() -> None:
    config.threads = 3
    try:
        with config.patch(threads=1, dump=Path("a")):
            assert (config.threads, config.dump) == (1, "a")
            with config.patch("dump", "b"), pytest.raises(KeyError), config.patch({"threads": 2}):
                assert (config.threads, config.dump) == (2, "b")
                raise KeyError
            assert (config.threads, config.dump) == (1, "a")
            config.recompile_limit = 9  # not named by the patch, so it stays
        assert (config.threads, config.dump, config.recompile_limit) == (3, None, 9)
    finally:
        del config.threads, config.recompile_limit
    assert config.threads is None and config.recompile_limit == 8


def test_a_patch_may_be_entered_again() -> None:
    patched = config.patch(threads=1)
    with patched:
        config.threads = 2
        with patched:
            assert config.threads == 1
        assert config.threads == 2
    assert config.threads is None


def test_a_patch_decorates() -> None:
    @config.patch(on_plain="error")
    def inside(depth: int) -> list[str]:
        """Its text."""
        return [config.on_plain, *(inside(depth - 1) if depth else [])]

    assert inside(2) == ["error"] * 3 and config.on_plain == "warn"
    assert inside.__name__ == "inside" and inside.__doc__ == "Its text."


def test_a_patch_does_not_decorate_what_runs_later() -> None:
    """The patch would end before the body begins."""
    for wrong in (_generates, _awaits):
        with pytest.raises(TypeError, match="within"):
            config.patch(threads=1)(wrong)

    async def right() -> int | None:
        with config.patch(threads=1):
            await asyncio.sleep(0)
            return config.threads

    assert asyncio.run(right()) == 1 and config.threads is None


def _generates() -> Any:
    yield 1


async def _awaits() -> None:
    pass


def test_the_environment_counts_until_the_program_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMLIR_RECOMPILE_LIMIT", "3")
    monkeypatch.setenv("DYNAMLIR_NO_CACHE", "True")
    assert config.recompile_limit == 3 and config.no_cache is True
    with config.patch(recompile_limit=5):
        assert config.recompile_limit == 5
    assert config.recompile_limit == 3
    monkeypatch.setenv("DYNAMLIR_NO_CACHE", "0")
    assert config.no_cache is False


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("DYNAMLIR_ON_PLAIN", "shout"),
        ("DYNAMLIR_RECOMPILE_LIMIT", "0"),
        ("DYNAMLIR_ACCUMULATED_RECOMPILE_LIMIT", "many"),
        ("DYNAMLIR_COMPILE_THREADS", "-2"),
        ("DYNAMLIR_NO_CACHE", "maybe"),
        ("DYNAMLIR_MAX_AUTOTUNE", "2"),
    ],
)
def test_a_wrong_environment_is_said_by_the_compilation(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=f"{variable} is '{text}', expected"):
        dynamlir.compile(lambda x: x + 1)
    with pytest.raises(Exception, match=f"{variable} is '{text}', expected"):
        torch.compile(lambda x: x + 1, backend="dynamlir")(torch.ones(3))
    with config.patch(threads=1):  # other options can still be set
        assert config.threads == 1


def test_a_wrong_environment_does_not_keep_the_package_from_being_imported() -> None:
    code = "import dynamlir; print(dynamlir.config.threads)"
    environment = {**os.environ, "DYNAMLIR_ON_PLAIN": "shout", "DYNAMLIR_COMPILE_THREADS": "2"}
    done = forked.python(code, env=environment)
    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_the_settings_and_their_documents() -> None:
    text = config.describe()
    for name, setting in config.SETTINGS.items():
        assert f"{name} = " in text and setting.environment in text and setting.doc in text
        assert name in dir(config) and name in config.__annotations__
    assert set(config.__annotations__) >= set(config.SETTINGS)


def test_options_go_before_settings(tmp_path: Path) -> None:
    with config.patch(dump=tmp_path / "settings"), torch.no_grad():
        dynamlir.compile(lambda x: x + 1)(torch.ones(3))
        dynamlir.compile(lambda x: x + 1, options={"dump": tmp_path / "options"})(torch.ones(3))
        torch.compile(lambda x: x + 1, backend="dynamlir", options={"dump": str(tmp_path / "theirs")})(torch.ones(3))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["options", "settings", "theirs"]


def test_settings_are_those_of_the_moment_a_compilation_begins(tmp_path: Path) -> None:
    compiled = dynamlir.compile(lambda x: x + 1)
    compiled(torch.ones(3))
    assert list(tmp_path.iterdir()) == []
    with config.patch(dump=tmp_path / "now"):
        compiled(torch.ones(3))  # is compiled
        assert list(tmp_path.iterdir()) == []
        compiled(torch.ones(4))
    assert (tmp_path / "now" / "00-aten.mlir").exists()
    compiled(torch.ones(5))
    assert [path.name for path in tmp_path.iterdir()] == ["now"]


def test_settings_that_change_during_a_compilation_are_for_the_next(tmp_path: Path) -> None:
    """A backend is user code that runs in the middle of a compilation."""
    seen = []

    def meddles(gm: Any, inputs: Any) -> Any:
        seen.append(config.recompile_limit)
        config.recompile_limit = 1
        return gm.forward

    compiled = dynamlir.compile(lambda x, n: x + n, backend=meddles)
    try:
        for n in range(3):
            with pytest.warns(dynamlir.PlainRunWarning) if n == 1 else _nothing():
                assert compiled(torch.ones(3), n).tolist() == [1.0 + n] * 3
    finally:
        del config.recompile_limit
    assert seen == [8] and len(compiled._cache) == 1


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...


def test_settings_are_the_process_s() -> None:
    seen: list[Any] = []
    with config.patch(threads=7):
        thread = threading.Thread(target=lambda: seen.append(config.threads))
        thread.start()
        thread.join()
        if pid := os.fork():
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        else:
            os._exit(0 if config.threads == 7 else 1)
    assert seen == [7]


def test_setting_is_safe_between_threads() -> None:
    def change() -> None:
        for at in range(200):
            with config.patch(recompile_limit=5 + at % 3):
                assert config.recompile_limit in (5, 6, 7, 8)

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    config.recompile_limit = 8
    del config.recompile_limit


def test_a_module_like_any_other() -> None:
    import dynamlir.config as again

    assert again is config and config.__name__ == "dynamlir.config" and config.__doc__
    assert not hasattr(config, "__path__")
    with pytest.raises(TypeError):
        copy.deepcopy(config)


# ---- the limits


def times(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def test_the_limit_of_a_function() -> None:
    compiled = dynamlir.compile(times, backend="eager")
    with config.patch(recompile_limit=3), pytest.warns(dynamlir.PlainRunWarning) as caught:
        for n in range(6):
            assert compiled(torch.ones(2), n).tolist() == [n, n]
    (warning,) = caught
    assert "times runs as plain Python: cache-limit (times has 3 entries; the last one fails at L['n']" in str(
        warning.message
    )
    assert "DYNAMLIR_LOGS=recompiles" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, times.__code__.co_firstlineno)
    assert len(compiled._cache) == 3
    # A higher limit allows more entries; the warning already given was about the former limit.
    compiled(torch.ones(2), 5)
    assert len(compiled._cache) == 4


def test_the_accumulated_limit() -> None:
    def make() -> Any:
        def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
            return x * n

        return dynamlir.compile(scaled, backend="eager")

    first, second = make(), make()
    with config.patch(accumulated_recompile_limit=3), pytest.warns(dynamlir.PlainRunWarning) as caught:
        for n in range(3):
            first(torch.ones(2), n)
            assert second(torch.ones(2), n).tolist() == [n, n]
    (warning,) = caught
    assert "has 3 entries" in str(warning.message) and "the code of" in str(warning.message)
    assert len(first._cache) + len(second._cache) == 3


def test_beyond_the_limit_fullgraph_raises_each_time() -> None:
    compiled = dynamlir.compile(times, backend="eager", fullgraph=True)
    with config.patch(recompile_limit=1):
        compiled(torch.ones(2), 1)
        for _ in range(2):
            with pytest.raises(dynamlir.Unsupported, match="cache-limit"):
                compiled(torch.ones(2), 2)
        assert compiled(torch.ones(2), 1).tolist() == [1, 1]


def test_beyond_the_limit_on_plain_error_raises_each_time() -> None:
    compiled = dynamlir.compile(times, backend="eager")
    with config.patch(recompile_limit=1, on_plain="error"):
        compiled(torch.ones(2), 1)
        for _ in range(2):
            with pytest.raises(dynamlir.Unsupported, match="cache-limit"):
                compiled(torch.ones(2), 2)
    with config.patch(recompile_limit=1), pytest.warns(dynamlir.PlainRunWarning):
        compiled(torch.ones(2), 2)
    with config.patch(recompile_limit=1, on_plain="error"), pytest.raises(dynamlir.Unsupported, match="cache-limit"):
        compiled(torch.ones(2), 2)
