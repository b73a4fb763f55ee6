"""Settings of the process: read them, assign to them, or `patch` them temporarily.

    dynamlir.config.on_plain = "error"
    with dynamlir.config.patch(dump="stages", threads=1):
        fast(x)

A setting not assigned by the program comes from its environment variable, else it has its default; ``del
dynamlir.config.dump`` returns to these. ``options={…}`` of a single `compile` overrides all of them. Settings belong to
the process, not to a thread. They are read when a compilation begins, `on_plain` and the limits at each call. Code that
is compiled stays as it is, and a running compilation keeps its settings. An unknown name raises `AttributeError`, an
invalid value `ValueError`, and neither changes anything.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

on_plain: Literal["warn", "error", "ignore"]
recompile_limit: int
accumulated_recompile_limit: int
unroll_limit: int
dump: str | None
threads: int | None
no_cache: bool
max_autotune: bool
cache_dir: str | None
eager_random: bool
memory_budget: float | None
reproducers: str | None
progress: bool
report: str | None
graph_breaks: bool
audit: bool | float
on_audit: Literal["warn", "error"]
break_every: int | None
check: bool | int


F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Setting:
    """The description of one setting."""

    default: Any
    environment: str
    """The environment variable that gives its value if the program does not."""
    expected: str
    """The accepted values, as text."""
    read: Callable[[str], Any]
    """Parses the text of the environment variable; raises `ValueError` if it is invalid."""
    is_valid: Callable[[Any], bool]
    doc: str


def _number(default: int | None, environment: str, doc: str) -> Setting:
    def is_valid(value: Any) -> bool:
        if value is None:
            return default is None
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 62

    return Setting(
        default, environment, "a number from 1" + (" or None" if default is None else ""), int, is_valid, doc
    )


def _flag(environment: str, doc: str, default: bool = False) -> Setting:
    words = {"1": True, "true": True, "0": False, "false": False}

    def read(text: str) -> bool:
        if text.lower() not in words:
            raise ValueError(text)
        return words[text.lower()]

    return Setting(default, environment, "True or False", read, lambda value: isinstance(value, bool), doc)


def _fraction(environment: str, doc: str) -> Setting:
    def is_valid(value: Any) -> bool:
        return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1)

    return Setting(None, environment, "a number from 0.0 to 1.0 or None", float, is_valid, doc)


def _share(environment: str, doc: str) -> Setting:
    words = {"true": True, "false": False, "1": True, "0": False}

    def is_valid(value: Any) -> bool:
        return isinstance(value, (bool, int, float)) and 0 <= value <= 1

    def read(text: str) -> Any:
        return words[text.lower()] if text.lower() in words else float(text)

    return Setting(False, environment, "True, False or a number from 0.0 to 1.0", read, is_valid, doc)


def _calls(environment: str, doc: str) -> Setting:
    words = {"true": True, "false": False}

    def read(text: str) -> Any:
        return words[text.lower()] if text.lower() in words else int(text)

    def is_valid(value: Any) -> bool:
        return isinstance(value, int) and 0 <= value < 1 << 62

    return Setting(False, environment, "True, False or a number of calls", read, is_valid, doc)


def _folder(environment: str, doc: str) -> Setting:
    def is_valid(value: Any) -> bool:
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        return path is None or (isinstance(path, str) and path != "")

    return Setting(None, environment, "a path or None", str, is_valid, doc)


def _choice(choices: tuple[str, ...], environment: str, doc: str) -> Setting:
    expected = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
    return Setting(
        choices[0], environment, expected, str, lambda value: isinstance(value, str) and value in choices, doc
    )


SETTINGS: Mapping[str, Setting] = types.MappingProxyType(
    {
        "on_plain": _choice(
            ("warn", "error", "ignore"),
            "DYNAMLIR_ON_PLAIN",
            "The notice before a function's graph runs as plain Python: a `PlainRunWarning`, once for each function "
            "and reason; an `Unsupported` exception, each time; or nothing. It is always counted in `fallbacks()`.",
        ),
        "recompile_limit": _number(
            8,
            "DYNAMLIR_RECOMPILE_LIMIT",
            "The number of kinds of calls with entries for one compiled function, and of entries of one kind. Calls "
            "that differ only in sizes are of one kind. Entries that a later one for all sizes covers do not count. "
            "Beyond the limit, a call without an entry runs as plain Python, or raises under ``fullgraph=True``.",
        ),
        "accumulated_recompile_limit": _number(
            256,
            "DYNAMLIR_ACCUMULATED_RECOMPILE_LIMIT",
            "The number of entries of one code object, over all that was compiled from it.",
        ),
        "unroll_limit": _number(
            2_000,
            "DYNAMLIR_UNROLL_LIMIT",
            "The number of operations from one line, reached by the same calls, in one graph. A longer loop continues "
            "in Python with one graph per iteration, as does a loop that runs long without an operation.",
        ),
        "dump": _folder(
            "DYNAMLIR_DUMP",
            "Folder that receives every stage as text; graphs after the first go to ``graph-1``, ``graph-2``, … in it.",
        ),
        "threads": _number(
            None,
            "DYNAMLIR_COMPILE_THREADS",
            "The number of threads that compile kernels; None: as many as the process may run.",
        ),
        "no_cache": _flag("DYNAMLIR_NO_CACHE", "Compile each kernel anew, even those that this process has compiled."),
        "max_autotune": _flag(
            "DYNAMLIR_MAX_AUTOTUNE",
            "Measure which strategy is fastest for each product and convolution, as ``mode='max-autotune'`` does.",
        ),
        "cache_dir": _folder(
            "DYNAMLIR_CACHE_DIR",
            "Folder for measurements; None: ``dynamlir`` in ``XDG_CACHE_HOME`` or ``~/.cache``.",
        ),
        "eager_random": _flag(
            "DYNAMLIR_EAGER_RANDOM",
            "Random numbers are those that eager draws after the same ``torch.manual_seed``: its operators draw them.",
        ),
        "memory_budget": _fraction(
            "DYNAMLIR_MEMORY_BUDGET",
            "The share of the optional values that is saved for backward: 0.0 uses the least memory, 1.0 the least "
            "time; None: the cost model decides.",
        ),
        "reproducers": _folder(
            "DYNAMLIR_REPRODUCERS",
            "Folder for reproducers, which repeat a failure of the compiler; None: ``reproducers`` in the folder for "
            "dumps, if there is one, else in the folder for measurements.",
        ),
        "report": _folder(
            "DYNAMLIR_REPORT",
            "Folder that receives an HTML report of this process when it ends, as `dynamlir.report` writes it.",
        ),
        "progress": _flag(
            "DYNAMLIR_PROGRESS",
            "Show on the terminal what is being compiled, and for how long, if that takes more than two seconds.",
            default=True,
        ),
        "graph_breaks": _flag(
            "DYNAMLIR_GRAPH_BREAKS",
            "Capture in pieces, with plain Python between, what `compile` cannot capture whole; if False, the whole "
            "call runs as plain Python.",
            default=True,
        ),
        "audit": _share(
            "DYNAMLIR_AUDIT",
            "Check what `compile` remembers: each cache hit, or this fraction of them, is captured a second time, "
            "without effects, before its graph runs, and compared with the entry. If they differ, the entry is "
            "dropped, the call is compiled again, and `on_audit` decides on the report; `dynamlir.audits()` counts. "
            "An audited call takes as long as a capture. Entries made before the setting are made anew.",
        ),
        "on_audit": _choice(
            ("warn", "error"),
            "DYNAMLIR_ON_AUDIT",
            "The report of an audit that finds a difference: a `StaleEntryWarning`, or a `StaleEntry` exception.",
        ),
        "check": _calls(
            "DYNAMLIR_CHECK",
            "Compare each graph's first calls with eager: the results, the writes to inputs and the gradients; True "
            "for 10 calls. A graph that computes something else runs as plain eager from then on, and the warning "
            "names the first operation that differs. Random numbers are eager's then. A checked call takes as long as "
            "three.",
        ),
        "break_every": _number(
            None,
            "DYNAMLIR_BREAK",
            "For tests: each graph ends after this many instructions of its frame, as if Python had to run the next "
            "one.",
        ),
    }
)

_made: dict[str, Any] = {}
"""The settings assigned by the program."""
_followers: list[Callable[[], None]] = []
_latest: dict[str, Any] = {}
"""The settings of the latest compilation: the environment may change unnoticed."""
generation = 0
"""Changes with each change of a setting."""


def read(name: str, environ: Mapping[str, str] | None = None) -> Any:
    """Returns the value of a setting: from the program, the environment, or the default."""
    setting = _setting(name)
    if name in _made:
        return _made[name]
    text = (os.environ if environ is None else environ).get(setting.environment)
    if not text:
        return setting.default
    try:
        value = setting.read(text)
    except ValueError:
        value = setting  # never a valid value
    if not setting.is_valid(value):
        raise ValueError(f"dynamlir: {setting.environment} is {text!r}, expected {setting.expected}")
    return value


def read_all() -> dict[str, Any]:
    """Returns all settings, for a new compilation. Raises `ValueError` if the environment has an invalid value."""
    values = {name: read(name) for name in SETTINGS}
    if values != _latest:
        _latest.update(values)
        touch()
    return values


def checked(name: str, value: Any) -> Any:
    """Returns a value given for a setting; raises `ValueError` if it is invalid."""
    setting = _setting(name)
    if not setting.is_valid(value):
        raise ValueError(f"dynamlir: {name} is {value!r}, expected {setting.expected}")
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def patch(name: str | Mapping[str, Any] | None = None, value: Any = None, /, **settings: Any) -> _Patch:
    """Changes settings temporarily: ``with patch(dump="stages"):``, or as a decorator for the calls of a function.

    Also ``patch("dump", "stages")`` and ``patch({"dump": "stages"})``. At the end, the settings named here are
    restored.
    """
    if isinstance(name, str):
        settings = {name: value, **settings}
    elif name is not None:
        settings = {**name, **settings}
    return _Patch({name: checked(name, value) for name, value in settings.items()})


def describe() -> str:
    """Returns all settings, with their values, the accepted values and their meaning."""
    parts = []
    for name, setting in SETTINGS.items():
        parts.append(f"{name} = {read(name)!r}\n    {setting.doc}")
        parts.append(f"    Takes {setting.expected}; {setting.environment} in the environment.")
    return "\n".join(parts)


def follow(follower: Callable[[], None]) -> None:
    """Registers a function to be called now and after each change."""
    _followers.append(follower)
    follower()


class _Patch(contextlib.ContextDecorator):
    """Other settings, from entering to leaving."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._before: list[dict[str, Any]] = []

    def _recreate_cm(self) -> _Patch:
        return _Patch(self._settings)

    def __call__(self, function: F) -> F:
        for later in (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction):
            if later(function):
                raise TypeError("dynamlir.config.patch decorates what runs when it is called; use it within the body")
        return super().__call__(function)

    def __enter__(self) -> None:
        self._before.append({name: _made[name] for name in self._settings if name in _made})
        _made.update(self._settings)
        touch()

    def __exit__(self, *error: object) -> None:
        for name in self._settings:
            _made.pop(name, None)
        _made.update(self._before.pop())
        touch()


def touch() -> None:
    """Invalidates all cached values of settings."""
    global generation
    generation += 1
    for follower in _followers:
        follower()


def _setting(name: str) -> Setting:
    found = SETTINGS.get(name)
    if found is None:
        close = difflib.get_close_matches(str(name), SETTINGS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(SETTINGS)}"
        raise AttributeError(f"dynamlir.config has no setting {name!r}{hint}")
    return found


class _Config(types.ModuleType):
    """The module itself, with settings looked up and checked. Its functions and types are as in any module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return read(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name in vars(self):
            super().__setattr__(name, value)
            return
        value = checked(name, value)
        _made[name] = value
        touch()

    def __delattr__(self, name: str) -> None:
        if name.startswith("_") or name in vars(self):
            super().__delattr__(name)
            return
        _setting(name)
        _made.pop(name, None)
        touch()

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *SETTINGS]


__all__ = [
    "SETTINGS",
    "Setting",
    "accumulated_recompile_limit",
    "audit",
    "break_every",
    "cache_dir",
    "check",
    "describe",
    "dump",
    "eager_random",
    "graph_breaks",
    "max_autotune",
    "memory_budget",
    "no_cache",
    "on_audit",
    "on_plain",
    "patch",
    "progress",
    "recompile_limit",
    "report",
    "reproducers",
    "threads",
    "unroll_limit",
]

# For `help`, which shows values: the list of settings is maintained only above.
__doc__ = f"{__doc__}\nSettings:\n\n" + "\n".join(
    f"{name}: {setting.expected}; {setting.environment}\n    {setting.doc}" for name, setting in SETTINGS.items()
)
sys.modules[__name__].__class__ = _Config
