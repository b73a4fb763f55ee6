"""The record of winning strategies, as one JSON file for each kind of machine in a cache folder.

A record may be invalid in any way – truncated, edited, written by another program, unreadable – and the disk may be
full, read-only or absent. The record is read as data, validated, and dropped whole if it is invalid. That, and a failed
write, gives one warning, and the process keeps its measurements in memory. When two processes write at the same time,
both get their measurements in: a writer reads again under a lock, and replaces the old file atomically.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import logs
from ..reports.plain_data import plain
from . import machine

SCHEMA = 2
MOST_BYTES = 8 << 20
MOST_PRODUCTS = 10_000
LOCK_SECONDS = 5.0

STRATEGY = re.compile(r"library|(panels|stream|dots)-(lhs|rhs)-[1-9][0-9]?|windows-[1-9][0-9]?-[1-9][0-9]{0,3}")
PROBLEM = re.compile(
    r"aten\.[a-z]{1,20}\.default( [0-9]{1,19}(x[0-9]{1,19}){0,7}\[[0-9]{1,19}(,[0-9]{1,19}){0,7}\]){2,3}"
    r"( (strides|padding|dilation|groups) [0-9]{1,19}(,[0-9]{1,19})?){0,4}( followed)?"
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """The winning strategy, and the milliseconds of all that were tried."""

    strategy: str
    milliseconds: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Record:
    """The record of one kind of machine, at ``path``; only in memory if that is None."""

    def __init__(self, path: Path | None, described: Mapping[str, Any]) -> None:
        self.path = path
        self._machine = dict(described)
        self._unsaved = _unsaved.setdefault((str(path), _digest(described)), {})

    def read(self) -> dict[str, Entry]:
        """Returns the known entries. A record that cannot be read counts as empty."""
        known = dict(self._unsaved)
        try:
            if self.path is not None:
                known.update(parse(_content(self.path), self._machine))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, RecursionError) as error:
            self._warn("cannot use", error)
        return known

    def merge(self, entries: Mapping[str, Entry]) -> None:
        """Adds measurements to the file; keeps them in memory if that fails."""
        if self.path is None:
            self._unsaved.update(entries)
            return
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self.path.with_suffix(".lock")):
                everything = {**self.read(), **entries}
                newest = dict(list(everything.items())[-MOST_PRODUCTS:])
                _replace(self.path, self._text(newest))
            self._unsaved.clear()
        except (OSError, ValueError) as error:
            self._unsaved.update(entries)
            self._warn("cannot write", error)

    def _warn(self, what: str, error: Exception) -> None:
        message = f"{what} the record {self.path}: {error or type(error).__name__}"
        logs.warn_once("autotune", f"{what} {self.path}", message)

    def _text(self, entries: Mapping[str, Entry]) -> str:
        whole = {"schema": SCHEMA, "machine": self._machine, "products": plain(dict(entries))}
        return json.dumps(whole, indent=1, allow_nan=False) + "\n"


_unsaved: dict[tuple[str, str], dict[str, Entry]] = {}


def forget() -> None:
    """Discards what is only in memory."""
    for entries in _unsaved.values():
        entries.clear()


def of_this_machine(folder: str | None) -> Record:
    """Returns the record for measurements made now: in ``folder``, else in the default cache folder."""
    described = machine.describe()
    found = cache_folder(folder)
    return Record(None if found is None else found / f"products-{_digest(described)}.json", described)


def cache_folder(given: str | None) -> Path | None:
    """Returns ``DYNAMLIR_CACHE_DIR``, ``XDG_CACHE_HOME/dynamlir`` or ``~/.cache/dynamlir``; None without a home."""
    if given := given or os.environ.get("DYNAMLIR_CACHE_DIR"):
        return Path(given).absolute()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if cache.is_absolute():  # the standard says to ignore others
        return cache / "dynamlir"
    try:
        return Path("~/.cache/dynamlir").expanduser()
    except RuntimeError:
        logs.warn_once("autotune", "no folder", "no folder for records: set DYNAMLIR_CACHE_DIR or HOME")
        return None


def _digest(described: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([SCHEMA, described], sort_keys=True).encode()).hexdigest()[:16]


def parse(text: str, described: Mapping[str, Any]) -> dict[str, Entry]:
    """Returns the entries of a record for the machine described; raises `ValueError` if anything in it is invalid."""
    whole = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    if not isinstance(whole, dict) or whole.keys() != {"schema", "machine", "products"}:
        raise ValueError("not a record")
    if type(whole["schema"]) is not int or whole["schema"] != SCHEMA:
        raise ValueError(f"it has schema {whole['schema']!r}, expected {SCHEMA}")
    if whole["machine"] != dict(described):
        raise ValueError("it is another machine's")
    products = whole["products"]
    if not isinstance(products, dict) or len(products) > MOST_PRODUCTS:
        raise ValueError("its products are not a dictionary, or there are too many")
    return {_checked(problem, PROBLEM): _entry(entry) for problem, entry in products.items()}


def _entry(value: Any) -> Entry:
    if not isinstance(value, dict) or value.keys() != {"strategy", "milliseconds"}:
        raise ValueError(f"{value!r:.100} is not an entry")
    times = value["milliseconds"]
    if not isinstance(times, dict) or len(times) > 16 or not all(_is_time(time) for time in times.values()):
        raise ValueError(f"{times!r:.100} are not milliseconds")
    return Entry(
        _checked(value["strategy"], STRATEGY),
        {_checked(strategy, STRATEGY): float(time) for strategy, time in times.items()},
    )


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < 1e9


def _checked(value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or len(value) > 1000 or pattern.fullmatch(value) is None:
        raise ValueError(f"{value!r:.100} is not expected")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key stands twice")
    return made


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _content(path: Path) -> str:
    """Returns a regular file's text; reading a pipe instead would block."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError("it is too large")
    return content.decode()


def _replace(path: Path, text: str) -> None:
    """Replaces a file's content atomically."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".new")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock against other processes; raises `OSError` if another one does not release it."""
    import fcntl  # not on every system

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES) or time.monotonic() > until:
                    raise
            time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)
