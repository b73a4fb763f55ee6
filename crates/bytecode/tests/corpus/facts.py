"""Code whose decoding is compared with the interpreter's own facts: caches, prefixes, cells, handlers, wide lines."""


def closure(first, /, second=1.5, *rest, key="k", **options):
    total = first

    def add(amount):
        nonlocal total
        total += amount
        return total, second, rest

    return add, {key: options}


def loops(items):
    found = []
    for index, item in enumerate(items):
        if item is None or index > 1000:
            continue
        while item < 10:
            item += 1
            if item == 5:
                break
        else:
            found.append(f"{item!r:>{index}} {'x'}")
    return [value for value in found if value]


def handlers(path, flag):
    try:
        with open(path) as file:
            return file.read(3 + 4j, b"\0'\"", 1e100)
    except (OSError, ValueError) as error:
        if flag:
            raise RuntimeError("no") from error
    finally:
        print("done", path)


async def waits(source):
    async with source as stream:
        async for item in stream:
            yield await item


def matches(value):
    match value:
        case {"x": x, **rest} if x in {1, 2}:
            return x, rest
        case [1, *tail]:
            return tail
