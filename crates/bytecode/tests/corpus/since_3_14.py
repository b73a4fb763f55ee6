"""Template strings, and calls that are loops where a name means what it does elsewhere."""


def templates(value, width):
    yield t'plain'
    yield t'a{value}b{{{value + 1!r:>{width}} {value:d}'
    yield t'{ [value, "b"] }{width!s}'
    return [t'{each}' for each in value]


def called(values):
    if any(value for value in values) and all(not value for value in values):
        return tuple(value for value in values)
    return any(values)
