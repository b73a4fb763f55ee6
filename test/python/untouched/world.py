"""The world of `test_capture_without_effects`: the guard fuzzer's, and objects that answer with code, hooks and counts.

Each of the program's own methods that Python calls implicitly reads the ``__code__`` of its own function. Audit hooks
are notified of that: it counts calls without a change that a capture could see.
"""

import array
import collections
import contextlib
import functools
import itertools
import logging
import threading
import types
import weakref

import torch
from torch import nn


def called_getattr(): ...
def called_getattribute(): ...
def called_eq(): ...
def called_hash(): ...
def called_get(): ...
def called_set(): ...
def called_del(): ...
def called_iter(): ...
def called_next(): ...
def called_enter(): ...
def called_exit(): ...
def called_bool(): ...
def called_index(): ...
def called_meta(): ...
def called_missing(): ...
def called_hook(): ...
def called_weak(): ...
def called_function(): ...
def called_add(): ...
def called_copy(): ...
def called_reduce(): ...


class Answers:
    known = 2

    def __init__(self):
        self.stored = 3

    def __getattr__(self, name):
        called_getattr.__code__  # noqa: B018
        if name.startswith("_"):
            raise AttributeError(name)
        return len(name)


class Every:
    def __init__(self):
        self.stored = 3

    def __getattribute__(self, name):
        called_getattribute.__code__  # noqa: B018
        return object.__getattribute__(self, name)


class Compared:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        called_eq.__code__  # noqa: B018
        return isinstance(other, Compared) and self.value == other.value

    def __hash__(self):
        called_hash.__code__  # noqa: B018
        return 7

    def __bool__(self):
        called_bool.__code__  # noqa: B018
        return self.value > 1

    def __index__(self):
        called_index.__code__  # noqa: B018
        return self.value

    def __add__(self, other):
        called_add.__code__  # noqa: B018
        return self.value + other

    __radd__ = __add__


class Described:
    def __get__(self, owner, kind=None):
        called_get.__code__  # noqa: B018
        return 4

    def __set__(self, owner, value):
        called_set.__code__  # noqa: B018
        owner.__dict__["behind"] = value


class MetaWatched(type):
    def __getattribute__(cls, name):
        called_meta.__code__  # noqa: B018
        return type.__getattribute__(cls, name)

    def __instancecheck__(cls, value):
        called_meta.__code__  # noqa: B018
        return value == 3


class Watched(metaclass=MetaWatched):
    k = 5


class Holder(Answers):
    described = Described()
    watched = Watched

    @functools.cached_property
    def once(self):
        called_function.__code__  # noqa: B018
        return 6


class Slots:
    __slots__ = ("__weakref__", "inner", "number")

    def __init__(self):
        self.inner, self.number = [1, 2], 3


class Counted:
    """Iterates with its own code; creates a new iterator each time."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        called_iter.__code__  # noqa: B018
        return CountedIterator(self.count)


class CountedIterator:
    def __init__(self, count):
        self.left = count

    def __next__(self):
        called_next.__code__  # noqa: B018
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


class Entered:
    def __enter__(self):
        called_enter.__code__  # noqa: B018
        return 2

    def __exit__(self, *error):
        called_exit.__code__  # noqa: B018
        return error[0] is KeyError


class Copied:
    def __init__(self):
        self.value = [1]

    def __copy__(self):
        called_copy.__code__  # noqa: B018
        made = Copied()
        made.value = self.value
        return made


class Reduced:
    def __init__(self, value=2):
        self.value = value

    def __reduce__(self):
        called_reduce.__code__  # noqa: B018
        return Reduced, (self.value,)


class Finalized:
    k = 2

    def __del__(self, mark=called_del):
        mark.__code__  # noqa: B018


class Table(dict):
    def __missing__(self, key):
        called_missing.__code__  # noqa: B018
        return 5


class Numbers(list):
    extra = 2


class Words(str):
    __slots__ = ()


class Pairs(tuple):
    __slots__ = ()


class Bag(set):
    pass


class Queue(collections.deque):
    pass


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        # Not registered: the number of a registered hook would depend on all modules that ever existed.
        self._forward_hooks[0] = hook
        self.fc._forward_pre_hooks[0] = hook_before

    def forward(self, x):
        return self.drop(self.fc(x)) + 1


def hook(module, args, result):
    called_hook.__code__  # noqa: B018
    return result * 2


def hook_before(module, args):
    called_hook.__code__  # noqa: B018


def let_go(_, mark=called_weak, log=LOG):  # noqa: F821
    mark.__code__  # noqa: B018
    log.append("let go")


@functools.lru_cache(4)
def remembered(value):
    called_function.__code__  # noqa: B018
    return value + 1


@functools.singledispatch
def dispatched(value):
    called_function.__code__  # noqa: B018
    return 2


@dispatched.register
def _(value: int):
    return 3


@contextlib.contextmanager
def managed():
    called_enter.__code__  # noqa: B018
    yield 2


def steps():
    yield from [1, 2, 3]


def counter():
    count = 0

    def more():
        nonlocal count
        count += 1
        return count

    return more


class Handler(logging.Handler):
    def emit(self, record):
        LOG.append(record.getMessage())  # noqa: F821


logger = logging.Logger("untouched")
logger.addHandler(Handler())

ANSWERS, EVERY, ONE, TWO, HOLDER, SLOTS = Answers(), Every(), Compared(1), Compared(2), Holder(), Slots()
COUNTED, ENTERED, COPIED, REDUCED, FINAL = Counted(3), Entered(), Copied(), Reduced(), Finalized()
WEAK = weakref.ref(FINAL, let_go)
WEAK_VALUES = weakref.WeakValueDictionary(a=ONE)
WEAK_KEYS = weakref.WeakKeyDictionary()
WEAK_KEYS[SLOTS] = 3
WEAK_SET = weakref.WeakSet([SLOTS])
PROXY = weakref.proxy(HOLDER)
KEYED = {ONE: 1, TWO: 2}
ELEMENTS = {ONE, 5}
MISSING, NUMBERS, WORDS, PAIRS = Table(a=1), Numbers([1, 2]), Words("ab"), Pairs((1, 2))
BAG, LINE, CHAIN, COUNTS = (
    Bag([1, 2]),
    Queue([1, 2], 4),
    collections.ChainMap({"a": 1}, {"b": 2}),
    collections.Counter("ab"),
)
VIEW = types.MappingProxyType({"a": 1})
KEYS, ITEMS_VIEW = KEYED.keys(), KEYED.items()
MEMORY = memoryview(bytearray(b"ab"))
WORDS_OF = array.array("d", [1.0, 2.0])
HOOKED, TRAINED = Hooked().eval(), Hooked()
GENERATOR, ITERATOR, REVERSED, ENUMERATED = steps(), iter([1, 2, 3]), reversed([1, 2, 3]), enumerate([4, 5])
CHAINED, COUNT, ZIPPED, MAPPED = itertools.chain([1], [2]), itertools.count(), zip([1], [2]), map(abs, [1, 2])
DICT_ITERATOR, SET_ITERATOR, RANGE_ITERATOR = iter({"a": 1}), iter({1, 2}), iter(range(4))
MORE = counter()
LATER = functools.partialmethod(helper, 2)  # noqa: F821
CELL = MORE.__closure__[0]
STACK = contextlib.ExitStack()
LOCK = threading.Lock()
APPEND = LIST.append  # noqa: F821
PARAMETER = nn.Parameter(torch.ones(3), requires_grad=False)
VIEWED = TENSOR[:2]  # noqa: F821
TENSORS = [TENSOR, VIEWED]  # noqa: F821
BY_NAME = {"x": TENSOR}  # noqa: F821
GENERATOR_OF_RANDOM = torch.Generator().manual_seed(1)
ERROR, PROPERTY = ValueError(1), vars(Config)["area"]  # noqa: F821
TOKEN = VARIABLE.set(1)  # noqa: F821
