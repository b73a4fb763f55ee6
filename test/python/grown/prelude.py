"""The module of grown functions: helpers, and classes that cover many features of Python."""

import collections
import dataclasses
import functools
import itertools  # noqa: F401
import math  # noqa: F401
import operator  # noqa: F401

COUNT = 0
say = globals().get("say", print)


class OutOfSteps(BaseException):
    """Raised when a grown function has used up its steps."""


class Steps:
    """Bounds the run of a grown function by counting its loop iterations and calls."""

    left = None

    @classmethod
    def take(cls):
        if cls.left is None:
            return
        cls.left -= 1
        if cls.left < 0:
            raise OutOfSteps


Pair = collections.namedtuple("Pair", "left right")


class Doubled:
    """A data descriptor."""

    def __get__(self, instance, owner):
        return self if instance is None else instance.size * 2

    def __set__(self, instance, value):
        instance.size = value // 2


class Box:
    """An ordinary Python object."""

    shared = 5
    double = Doubled()

    def __init__(self, size, items=None):
        self.size = size
        self.items = [size] if items is None else items

    @classmethod
    def make(cls, size):
        return cls(size + 1)

    @staticmethod
    def twice(value):
        return value * 2 % 101

    @property
    def label(self):
        return f"box{self.size}"

    def grow(self, by):
        self.size = (self.size + by) % 101
        return self.size

    def scale(self, tensor):
        return tensor * self.size

    def __repr__(self):
        return f"{type(self).__name__}({vars(self)})"

    def __call__(self, value):
        return self.twice(value) + self.size

    def __len__(self):
        return abs(self.size) % 5

    def __bool__(self):
        return self.size % 3 != 0

    def __getitem__(self, key):
        return self.items[key]

    def __setitem__(self, key, value):
        self.items[key] = value

    def __iter__(self):
        yield self.size
        yield from self.items

    def __contains__(self, value):
        return value == self.size

    def __eq__(self, other):
        return isinstance(other, Box) and self.size == other.size

    def __hash__(self):
        return self.size

    def __lt__(self, other):
        if not isinstance(other, Box):
            return NotImplemented
        return self.size < other.size

    def __add__(self, other):
        return type(self)((self.size + other) % 101)

    def __radd__(self, other):
        return Box((other - self.size) % 101)

    def __neg__(self):
        return Box(-self.size)


class Small(Box):
    """A subclass that calls its parent's methods."""

    __slots__ = ("extra",)

    def __init__(self, size, *rest):
        super().__init__(size % 10, *rest)
        self.extra = size

    def grow(self, by):
        return super().grow(by) + 1

    def __getattr__(self, name):
        if name.startswith("__") or name == "missing":
            raise AttributeError(name)
        return name


@dataclasses.dataclass(order=True)
class Record:
    """A dataclass."""

    size: int
    tags: list = dataclasses.field(default_factory=list)

    def boxed(self):
        return Box(self.size, self.tags)


class Held:
    """A context manager that reports its entry and exit, and may swallow an exception."""

    def __init__(self, name, swallow=()):
        self.name = name
        self.swallow = swallow

    def __enter__(self):
        say("enter", self.name)
        return self.name

    def __exit__(self, kind, error, trace):
        say("exit", self.name, kind and kind.__name__)
        return kind is not None and issubclass(kind, self.swallow)


def counting(n):
    """A generator that receives values."""
    for i in range(n % 5):
        got = yield i
        if got is not None:
            say("got", got)
    return n


def helper(a, b=3, *rest, k=0, **more):
    """A function with every kind of parameter."""
    Steps.take()
    return (a - b + k + sum(rest) + sum(more.values())) % 101


def traced(function):
    """A decorator."""

    @functools.wraps(function)
    def wrapper(*args, **named):
        say("call", function.__name__.rstrip("0123456789"))
        return function(*args, **named)

    return wrapper
