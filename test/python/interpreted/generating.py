"""Generators, coroutines, asynchronous generators."""

import asyncio
import contextlib
import inspect

from .support import case

# --- generators


@case
def generators():
    def numbers(n):
        received = []
        try:
            for i in range(n):
                received.append((yield i))
        except ValueError as error:
            yield f"caught {error}"
        finally:
            print("closed")
        return received

    it = numbers(5)
    log = [next(it), it.send("a"), it.throw(ValueError("b"))]
    with contextlib.suppress(StopIteration):
        next(it)
    it = numbers(2)
    log += list(it), inspect.getgeneratorstate(it)
    it = numbers(3)
    next(it)
    it.close()
    log.append(inspect.getgeneratorstate(it))
    return log


@case
def yield_from():
    def inner():
        try:
            x = yield 1
            y = yield x
        except KeyError:
            y = "caught"
        return y

    def outer():
        result = yield from inner()
        print("result", result)
        result = yield from [7, 8]
        return result

    it = outer()
    log = [next(it), it.send("x"), it.send("y"), next(it)]
    it = outer()
    next(it)
    log.append(it.throw(KeyError))
    try:
        while True:
            log.append(next(it))
    except StopIteration as stop:
        log.append(stop.value)
    return log


@case
def generator_that_raises():
    def numbers():
        yield 1
        raise ValueError("inside")

    return list(numbers())


@case
def generator_that_stops():
    def numbers():
        yield 1
        raise StopIteration("odd")

    return list(numbers())


@case
def generator_expressions():
    total = sum(x * y for x in range(4) for y in range(x) if y % 2)
    lazy = (print("made", x) or x for x in range(2))
    return total, next(lazy), list(lazy)


@case
def generator_state_between():
    def numbers():
        local = [1]
        yield local
        local.append(2)
        yield local

    it = numbers()
    next(it)
    frame = it.gi_frame
    return dict(frame.f_locals), frame.f_lineno - frame.f_code.co_firstlineno, it.gi_running, next(it), it.gi_yieldfrom


@case
def generator_running_itself():
    def numbers():
        yield next(it)

    it = numbers()
    return next(it)


# --- asynchronous


def run(coroutine):
    return asyncio.run(coroutine)


@case
def coroutines():
    async def double(x):
        await asyncio.sleep(0)
        return 2 * x

    async def main():
        return await double(2), await asyncio.gather(*(double(i) for i in range(3)))

    return run(main())


@case
def asynchronous_generators():
    async def numbers(n):
        for i in range(n):
            received = yield i
            if received:
                print("received", received)

    async def main():
        it = numbers(3)
        log = [await anext(it), await it.asend("x")]
        await it.aclose()
        return log, [x async for x in numbers(3) if x], {x: y async for x in numbers(2) for y in [x]}

    return run(main())


@case
def asynchronous_with():
    class Manager:
        async def __aenter__(self):
            await asyncio.sleep(0)
            return "entered"

        async def __aexit__(self, kind, value, trace):
            print("exit", kind)
            return True

    async def main():
        async with Manager() as m:
            print(m)
            raise ValueError
        return "after"

    return run(main())


@case
def await_of_no_awaitable():
    async def main():
        await 5

    run(main())


@case
def async_for_of_no_iterable():
    async def main():
        async for _ in [1]:
            pass

    run(main())


@case
def async_with_of_no_manager():
    async def main():
        async with 5:
            pass

    run(main())


@case
def cancelled():
    async def sleeper():
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            print("cancelled")
            raise

    async def main():
        task = asyncio.create_task(sleeper())
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "done"

    return run(main())
