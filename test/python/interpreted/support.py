"""Cases and their outcomes."""

import contextlib
import importlib
import io
import json
import re
import traceback

CASES = {}
# Files whose frames are not part of the outcome of a case.
HARNESS = {__file__}


def case(function):
    """Registers a case by its name."""
    CASES[function.__name__] = function
    return function


def optional(name):
    """A module that not every CPython includes, or None."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Noisy:
    """Says what is done to it."""

    def __init__(self, name="noisy"):
        self.__dict__["name"] = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{self.name}.{name}"

    def __setattr__(self, name, value):
        print("set", name, value)

    def __delattr__(self, name):
        print("del", name)

    def __getitem__(self, key):
        print("get", key)
        return key

    def __setitem__(self, key, value):
        print("put", key, value)

    def __delitem__(self, key):
        print("drop", key)

    def __add__(self, other):
        return "add"

    def __radd__(self, other):
        return "radd"

    def __iadd__(self, other):
        print("iadd")
        return self

    def __lt__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return "equal"

    def __contains__(self, item):
        return 3

    def __bool__(self):
        print("bool")
        return True

    def __neg__(self):
        return "neg"

    def __pos__(self):
        return "pos"

    def __invert__(self):
        return "invert"

    def __call__(self, *args, **named):
        return args, named

    def __len__(self):
        return 7

    def __format__(self, spec):
        return f"<{spec}>"

    def __repr__(self):
        return f"Noisy({self.name})"


def shown(value):
    """A value without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def shown_error(error, depth=0):
    """An exception with its traceback and its causes."""
    if error is None or depth > 5:
        return None
    entries = [entry for entry in traceback.extract_tb(error.__traceback__) if entry.filename not in HARNESS]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename not in HARNESS]
    lines = [(entry.name, entry.lineno - frame.f_code.co_firstlineno) for entry, frame in zip(entries, frames)]
    return {
        "type": type(error).__name__,
        "args": shown(error.args),
        "traceback": lines,
        "positions": [text.split("\n")[1:] for text in traceback.StackSummary.from_list(entries).format()],
        "cause": shown_error(error.__cause__, depth + 1),
        "context": shown_error(error.__context__, depth + 1),
        "suppressed": error.__suppress_context__,
    }


def outcome(call, function):
    """The outcome of a function: its result, exception and output."""
    printed = io.StringIO()
    result, error = None, None
    with contextlib.redirect_stdout(printed):
        try:
            result = shown(call(function))
        except BaseException as raised:
            error = shown_error(raised)
    return json.loads(json.dumps({"result": result, "error": error, "printed": printed.getvalue()}))
