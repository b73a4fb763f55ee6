"""Exceptions and context managers."""

import contextlib
import sys
import traceback

from .support import Noisy, case, optional

# --- exceptions


@case
def raise_plainly():
    raise ValueError("plain", 1)


@case
def raise_class():
    raise KeyError


@case
def raise_from():
    try:
        {}["k"]
    except KeyError as error:
        raise ValueError("converted") from error


@case
def raise_from_none():
    try:
        1 / 0
    except ZeroDivisionError:
        raise ValueError("hidden") from None


@case
def raise_no_exception():
    raise 42


@case
def raise_from_no_exception():
    raise ValueError from 42


@case
def raise_class_that_makes_no_exception():
    class Odd(Exception):
        def __new__(cls):
            return 5

    raise Odd


@case
def reraise_nothing():
    raise


@case
def context_chain():
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            [].pop()
    except IndexError:
        None.x


@case
def handlers():
    log = []
    for kind in (ValueError, KeyError, OSError, None):
        try:
            if kind:
                raise kind("x")
        except (ValueError, KeyError) as error:
            log.append(type(error).__name__)
        except OSError:
            log.append("os")
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log, sys.exc_info()


@case
def except_of_no_class():
    try:
        raise ValueError
    except 5:
        pass


@case
def nested_finally():
    log = []

    def inner(n):
        try:
            try:
                if n == 0:
                    return "returned"
                if n == 1:
                    raise ValueError("one")
                for _ in range(2):
                    if n == 2:
                        continue
            finally:
                log.append(("inner", n))
        except ValueError as error:
            return str(error)
        finally:
            log.append(("outer", n))
        return "end"

    return [inner(n) for n in range(4)], log


@case
def finally_that_returns():
    def f():
        for _ in range(3):
            try:
                1 / 0
            finally:
                return "swallowed"  # noqa: B012

    return f()


@case
def exception_name_is_deleted():
    try:
        raise ValueError
    except ValueError as error:
        kept = error
    try:
        return error
    except NameError as second:
        return type(kept).__name__, str(second)


@case
def traceback_lines():
    def one():
        two(
            1,
            2,
        )

    def two(a, b):
        values = [
            a,
            b / 0,
        ]
        return values

    one()


@case
def traceback_through_c():
    def key(x):
        return x.missing

    sorted([1, 2], key=key)


@case
def traceback_of_what_came_in_place():
    # C code raises an exception whose class cannot be instantiated.
    _testcapi = optional("_testcapi")

    class Unbuildable(Exception):
        def __init__(self):
            raise RuntimeError("no")

    if _testcapi is None:
        return
    for arguments in 0, 1:
        try:
            _testcapi.raise_exception(Unbuildable, arguments)
        except Exception as error:
            print(type(error).__name__, [entry.name for entry in traceback.extract_tb(error.__traceback__)])
    _testcapi.raise_exception(Unbuildable, 0)


@case
def traceback_of_reraise():
    def inner():
        raise ValueError("first")

    try:
        inner()
    except ValueError:
        try:
            inner()
        except ValueError as error:
            raise error
    finally:
        print("finally")


@case
def bare_reraise():
    def inner():
        try:
            1 / 0
        except ZeroDivisionError:
            raise

    inner()


@case
def assertions():
    try:
        assert not Noisy(), "message"
    except AssertionError as error:
        return error.args


@case
def exception_in_handler_of_generator():
    def numbers():
        try:
            yield 1
        except ValueError:
            yield sys.exc_info()[0].__name__
            raise KeyError("from generator") from None

    it = numbers()
    next(it)
    try:
        raise TypeError("outer")
    except TypeError:
        print(it.throw(ValueError("in")), sys.exc_info()[0].__name__)
        next(it)


@case
def exception_groups():
    log = []
    for error in (
        ExceptionGroup("g", [ValueError(1), KeyError(2), ExceptionGroup("n", [ValueError(3)])]),
        ValueError(4),
    ):
        try:
            try:
                raise error
            except* ValueError as group:
                log.append(repr(group))
            except* TypeError:
                log.append("type")
        except ExceptionGroup as rest:
            log.append(repr(rest))
    return log


@case
def exception_group_with_new_ones():
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError:
        raise TypeError("new")
    except* KeyError:
        raise


@case
def except_star_of_a_group():
    try:
        raise ValueError
    except* ExceptionGroup:
        pass


# --- with


class Manager:
    """Says when it is entered and left."""

    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        print("enter", self.name)
        return self

    def __exit__(self, kind, value, trace):
        print("exit", self.name, kind and kind.__name__, value, trace is not None)
        return self.swallow


@case
def with_statements():
    with Manager("a") as a, Manager("b", swallow=True):
        print(a.name)
        raise ValueError("inside")
    for i in range(2):
        with Manager(i):
            if i:
                break
            continue
    with contextlib.suppress(KeyError):
        {}["x"]
    return "after"


@case
def with_return():
    def f():
        with Manager("r"):
            return "value"

    return f()


@case
def with_exception():
    with Manager("x"):
        raise ValueError("through")


@case
def with_exception_in_exit():
    class Bad(Manager):
        def __exit__(self, *args):
            raise KeyError("exit")

    with Bad("b"):
        raise ValueError("body")


@case
def with_no_manager():
    with 5:
        pass


@case
def with_half_a_manager():
    class Half:
        def __enter__(self):
            pass

    with Half():
        pass
