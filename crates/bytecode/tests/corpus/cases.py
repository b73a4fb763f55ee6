"""Patterns, guards, and where cases lead."""


def patterns(value):
    made = None
    match value:
        case 1 | 'two' | None:
            made = 'literal'
        case [first, *rest] if first:
            made = rest
        case {'key': found, **others}:
            made = found, others
        case complex(real=0.5, imag=part):
            made = part
        case [(1 | 2) as small, [_, _, *_]]:
            made = small
        case value.one | (value.two | value.three):
            made = 'dotted'
        case {'a': [x, {'b': y}]} | [y, x]:
            made = x, y
        case _:
            made = 'other'
    return made


def singletons(value):
    match value:
        case False:
            made = 0
        case True:
            made = 1
        case 0:
            made = 2
    return made


def loops(values):
    for value in values:
        match value:
            case int():
                pass
            case [*_, last]:
                return last
            case str(text) if text:
                print(text)
    print(values)


def only(value):
    match value:
        case [x, y]:
            value = x + y
    return value
