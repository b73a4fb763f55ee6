"""The module of the guard fuzzer's programs: one of every kind of object that can decide what a program computes."""

import abc
import array
import collections
import contextvars
import dataclasses
import enum
import functools
import threading
import types
import weakref
from typing import NamedTuple

import torch
from torch import nn


class Base:
    k = 2
    table = {"a": 1, "b": 2}  # noqa: RUF012

    def scaled(self, value):
        return value * self.k


class Other:
    k = 3

    def scaled(self, value):
        return value + self.k


class Doubled:
    def __get__(self, owner, kind=None):
        return 4

    def __set__(self, owner, value):
        owner.__dict__["doubled"] = value


class Lazy:
    def __get__(self, owner, kind=None):
        return 6


class Config(Base):
    doubled = Doubled()
    lazy = Lazy()

    def __init__(self, width=4):
        self.width = width
        self.items = [1, 2]
        self.nothing = None
        self.inner = Other()

    @property
    def area(self):
        return self.width * 2

    @classmethod
    def make(cls, width):
        return cls(width)

    @staticmethod
    def twice(value):
        return value * 2

    def scaled(self, value):
        return super().scaled(value) + 1

    def __len__(self):
        return 3

    def __contains__(self, value):
        return value == 2

    def __getitem__(self, key):
        if key > 5:
            raise IndexError(key)
        return key + 1

    def __call__(self, value):
        return value + self.width

    def __eq__(self, other):
        return isinstance(other, Config) and self.width == other.width

    def __hash__(self):
        return 7


class Empty:
    pass


class Slotted:
    __slots__ = ("__weakref__", "unset", "value")

    def __init__(self):
        self.value = 5


class Meta(type):
    def __getattr__(cls, name):
        return 8 if name == "answered" else super().__getattribute__(name)

    @property
    def of_meta(cls):
        return 9


class Answering(metaclass=Meta):
    k = 5


class Shape(abc.ABC):  # noqa: B024
    pass


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    left: int
    right: int


@dataclasses.dataclass
class Data:
    first: int = 1
    second: float = 2.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.fc.weight.data.copy_(torch.arange(9.0).reshape(3, 3) / 9)
        self.fc.bias.data.copy_(torch.arange(3.0))
        self.register_buffer("scale", torch.full((3,), 2.0))
        self.act = nn.ReLU()
        self.rate = 0.5

    def forward(self, x):
        return self.act(self.fc(x)) * self.scale + (self.rate if self.training else 1)


def helper(value, more=3, *, extra=1):
    return value + more + extra


def helper_of_others(value, more=5, *, extra=2):
    return value * more - extra


def outer():
    held = 3

    def inner(value):
        return value + held

    return inner


@functools.lru_cache(None)
def cached(value):
    return value + STATE["cached"]


@functools.wraps(torch.relu)
def wrapped(value):
    return value + STATE["wrapped"]


def bump():
    LOG.append(len(LOG))
    return len(LOG)


STATE = {"cached": 1, "wrapped": 2, "n": 1}
LOG = []
NUMBER = 3
FLOAT = 0.5
TEXT = "abc"
NOTHING = None
FLAG = True
LIST = [1, 2, 3]
NESTED = [[1], {"k": 2}, (3, 4)]
TABLE = {"a": 1, "b": 2}
ORDERED = collections.OrderedDict(first=1, second=2)
DEFAULTS = collections.defaultdict(int, {"a": 4})
SET = {0, 8, 3}
FROZEN = frozenset([0, 8])
TUPLE = (1, 2, 3)
QUEUE = collections.deque([1, 2])
BYTES = bytearray(b"ab")
ARRAY = array.array("i", [1, 2])
CONFIG, SECOND, EMPTY, SLOTTED, DATA, PAIR = Config(), Config(5), Empty(), Slotted(), Data(), Pair(1, 2)
PARTIAL = functools.partial(helper, 2, more=4)
METHOD = CONFIG.scaled
REFERENCE = weakref.ref(CONFIG)
VARIABLE = contextvars.ContextVar("VARIABLE", default=2)
NAMESPACE = types.SimpleNamespace(k=3)
MODULE = types.ModuleType("fuzzed_module")
MODULE.k = 4
LOCAL = threading.local()
LOCAL.k = 2
BLOCK = Block().eval()
TENSOR = torch.tensor([1.0, 2.0, 3.0])
KEY = Color.RED
INNER = outer()
POOL = [Config(9), Other(), Empty()]
