"""Locals, closures, globals, class bodies, imports."""

import collections
import sys

from .support import CASES, case

# --- locals and closures


@case
def unbound_local():
    if not CASES:
        x = 1
    return x


@case
def deleted_local():
    x = 1
    del x
    return x


@case
def delete_unbound_local():
    x = 1
    del x
    del x


@case
def closure_cells():
    def counter():
        count = 0

        def step(by=1):
            nonlocal count
            count += by
            return count

        return step

    step = counter()
    return step(), step(5), step.__closure__[0].cell_contents


@case
def argument_that_is_a_cell():
    def outer(a, *rest, b=2, **named):
        return lambda: (a, rest, b, named)

    return outer(1, 3, b=4, c=5)()


@case
def unbound_free_variable():
    def inner():
        return x

    inner()
    x = 1
    return x


@case
def deleted_cell():
    x = 1

    def inner():
        return x

    del x
    return inner()


@case
def many_locals():
    names = [f"v{i}" for i in range(300)]
    source = "def f():\n" + "".join(f"  {n} = {i}\n" for i, n in enumerate(names)) + f"  return {' + '.join(names)}\n"
    scope = {}
    exec(source, scope)
    return scope["f"]()


@case
def locals_and_frames():
    x, y = 1, [2]
    shown = dict(locals())
    frame = sys._getframe()
    return shown, frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, frame.f_back is not None


# --- names


@case
def undefined_name():
    return this_name_is_not_defined


@case
def globals_and_builtins():
    global a_global_of_the_cases
    a_global_of_the_cases = [1]
    seen = a_global_of_the_cases, len
    del a_global_of_the_cases
    try:
        return a_global_of_the_cases
    except NameError as error:
        return seen, str(error), error.name


@case
def class_body():
    class Base:
        def __init_subclass__(cls, **named):
            cls.named = named

    value = "outer"

    class Derived(Base, metaclass=type, flag=True):
        """Documented."""

        copied = value
        annotated: int = 3
        other: "str"

        def method(self, x: int = 1, *, y: str = "y") -> "Derived":
            return x, y, __class__.__name__

        values = [copied for _ in range(2)] if False else [1]
        del values

    return Derived().method(2), Derived.named, Derived.__doc__, Derived.__annotations__, sorted(Derived.__dict__)


@case
def class_body_names():
    x = "enclosing"

    class C:
        y = x
        x = "class"
        z = x

    return C.y, C.z


@case
def mapping_namespace():
    class Upper(dict):
        def __missing__(self, name):
            if name.startswith("__") or not name.isupper():
                raise KeyError(name)
            return name.lower()

    class Meta(type):
        @classmethod
        def __prepare__(cls, name, bases):
            return Upper()

    class C(metaclass=Meta):
        a = FOO
        b = BAR

    return C.a, C.b


@case
def custom_globals_and_builtins():
    scope = {"__builtins__": {"len": lambda value: "mine", "__build_class__": __build_class__, "__name__": "x"}}
    exec("class A: pass\nresult = len([])", scope)
    return scope["result"], scope["A"].__name__


# --- imports


@case
def imports():
    import os.path as path
    import xml.dom.minidom
    from collections import OrderedDict as Ordered, abc
    from importlib import util

    return path.__name__, xml.dom.minidom.__name__, Ordered.__name__, abc.__name__, util.__name__


@case
def import_of_nothing():
    import there_is_no_such_module  # noqa: F401


@case
def import_from_without():
    from collections import there_is_no_such_name  # noqa: F401


@case
def import_star():
    scope = {}
    exec("from contextlib import *", scope)
    return "suppress" in scope, "_GeneratorContextManager" in scope


@case
def import_overridden():
    def mine(name, globals=None, locals=None, fromlist=(), level=0):
        return collections.namedtuple("Fake", "there")("imported")

    scope = {"__builtins__": {"__import__": mine}}
    exec("import anything\nfrom any import there", scope)
    return scope["anything"].there, scope["there"]
