"""Settings of the process: read them, assign to them, or `patch` them for a while.

    dynamlir.config.on_plain = "error"
    with dynamlir.config.patch(dump="stages", threads=1):
        fast(x)

A setting that the program has not made comes from its environment variable, else it has its default; ``del
dynamlir.config.dump`` goes back to these. ``options={…}`` of a single `compile` goes before all of them. Settings are
the process's, not a thread's. They are looked at when a compilation begins, `on_plain` and the limits at each call:
what has been compiled stays, and what is being compiled goes on as it began. A name that is not a setting is an
`AttributeError`, a value that a setting cannot have is a `ValueError`, and neither changes anything.
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
graph_breaks: bool
audit: bool | float
on_audit: Literal["warn", "error"]
break_every: int | None


F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Setting:
    """What may be set."""

    default: Any
    environment: str
    """The variable that says it where the program does not."""
    expected: str
    """What values it takes, in words."""
    read: Callable[[str], Any]
    """The value that a text in the environment stands for; `ValueError` where there is none."""
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
            "What happens before a function's graph runs as plain Python: a `PlainRunWarning`, once for each function "
            "and reason; an `Unsupported` each time; or nothing. It is counted in `fallbacks()` in any case.",
        ),
        "recompile_limit": _number(
            8,
            "DYNAMLIR_RECOMPILE_LIMIT",
            "How many kinds of calls the cache of what `compile` returned may have entries for, and how many entries "
            "each kind: calls that differ in sizes only are of one kind. Entries that a later one covers, since it is "
            "for all sizes, do not count. A call that no entry fits runs as plain Python, or raises under "
            "``fullgraph=True``.",
        ),
        "accumulated_recompile_limit": _number(
            256,
            "DYNAMLIR_ACCUMULATED_RECOMPILE_LIMIT",
            "How many entries there may be for one code object, of all that was compiled from it.",
        ),
        "unroll_limit": _number(
            2_000,
            "DYNAMLIR_UNROLL_LIMIT",
            "How many operations of one line, called on the same way, a graph may have. A longer loop goes on in "
            "Python, with a graph for each turn; so does one that computes for long without an operation.",
        ),
        "dump": _folder(
            "DYNAMLIR_DUMP",
            "Folder that receives every stage as text; graphs after the first go to ``graph-1``, ``graph-2``, … in it.",
        ),
        "threads": _number(
            None,
            "DYNAMLIR_COMPILE_THREADS",
            "How many threads compile kernels; None: as many as the process may run at a time.",
        ),
        "no_cache": _flag("DYNAMLIR_NO_CACHE", "Compile each kernel anew, also those that this process has compiled."),
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
            "How much of what backward could do without is kept for it: 0.0 is the least memory, 1.0 the least time; "
            "None: the cost model weighs one against the other.",
        ),
        "reproducers": _folder(
            "DYNAMLIR_REPRODUCERS",
            "Folder for what replays a failure of the compiler; None: ``reproducers`` in the folder for dumps, if "
            "there is one, else in the one for measurements.",
        ),
        "progress": _flag(
            "DYNAMLIR_PROGRESS",
            "Say on the terminal what is being compiled, and for how long, where that takes more than two seconds.",
            default=True,
        ),
        "graph_breaks": _flag(
            "DYNAMLIR_GRAPH_BREAKS",
            "What `compile` cannot capture whole is captured in pieces, with plain Python between; else the whole "
            "call runs as plain Python.",
            default=True,
        ),
        "audit": _share(
            "DYNAMLIR_AUDIT",
            "Check what `compile` remembers: each call that an entry of the cache answers, or this share of them, is "
            "captured again, without effects, before the graph runs, and compared with the entry. Where the two differ "
            "the entry is dropped, the call has a new one, and `on_audit` says what is told; `dynamlir.audits()` "
            "counts. Such calls take as long as the capture of a first one. Entries that were made before it was set "
            "are made anew.",
        ),
        "on_audit": _choice(
            ("warn", "error"),
            "DYNAMLIR_ON_AUDIT",
            "What an audit that finds a difference does: a `StaleEntryWarning`, or a `StaleEntry` that is raised.",
        ),
        "break_every": _number(
            None,
            "DYNAMLIR_BREAK",
            "For tests: each graph ends after so many instructions of its frame, as if Python had to run the next one.",
        ),
    }
)

_made: dict[str, Any] = {}
"""The settings that the program has made."""
_followers: list[Callable[[], None]] = []
_latest: dict[str, Any] = {}
"""What the latest compilation began with: the environment may change unnoticed."""
generation = 0
"""Changes with each change of a setting."""


def read(name: str, environ: Mapping[str, str] | None = None) -> Any:
    """The value of a setting: the program's, that of the environment, or the default."""
    setting = _setting(name)
    if name in _made:
        return _made[name]
    text = (os.environ if environ is None else environ).get(setting.environment)
    if not text:
        return setting.default
    try:
        value = setting.read(text)
    except ValueError:
        value = setting  # which is valid for no setting
    if not setting.is_valid(value):
        raise ValueError(f"dynamlir: {setting.environment} is {text!r}, expected {setting.expected}")
    return value


def read_all() -> dict[str, Any]:
    """All settings, for a compilation that begins. `ValueError` where the environment says something wrong."""
    values = {name: read(name) for name in SETTINGS}
    if values != _latest:
        _latest.update(values)
        touch()
    return values


def checked(name: str, value: Any) -> Any:
    """A value that somebody gives for a setting; `ValueError` if it cannot have it."""
    setting = _setting(name)
    if not setting.is_valid(value):
        raise ValueError(f"dynamlir: {name} is {value!r}, expected {setting.expected}")
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def patch(name: str | Mapping[str, Any] | None = None, value: Any = None, /, **settings: Any) -> _Patch:
    """Other settings for a while: ``with patch(dump="stages"):``, or as a decorator for the calls of a function.

    Also ``patch("dump", "stages")`` and ``patch({"dump": "stages"})``. At the end the settings that are named here are
    what they were before.
    """
    if isinstance(name, str):
        settings = {name: value, **settings}
    elif name is not None:
        settings = {**name, **settings}
    return _Patch({name: checked(name, value) for name, value in settings.items()})


def describe() -> str:
    """All settings, with their values, what they take and what they do."""
    parts = []
    for name, setting in SETTINGS.items():
        parts.append(f"{name} = {read(name)!r}\n    {setting.doc}")
        parts.append(f"    Takes {setting.expected}; {setting.environment} in the environment.")
    return "\n".join(parts)


def follow(follower: Callable[[], None]) -> None:
    """Has a function called now and after each change."""
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
    """Have whoever remembers what settings say ask again."""
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
    """The module, whose settings are looked up and checked. Functions and types of it are as in any module."""

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
    "cache_dir",
    "describe",
    "dump",
    "eager_random",
    "max_autotune",
    "memory_budget",
    "no_cache",
    "on_audit",
    "on_plain",
    "patch",
    "progress",
    "recompile_limit",
    "threads",
    "unroll_limit",
]

# For `help`, where values can be read: what may be set is said once, above.
__doc__ = f"{__doc__}\nSettings:\n\n" + "\n".join(
    f"{name}: {setting.expected}; {setting.environment}\n    {setting.doc}" for name, setting in SETTINGS.items()
)
sys.modules[__name__].__class__ = _Config
