"""Lazy imports, and unpacking in comprehensions."""
lazy import os
lazy import os.path as path
lazy from sys import argv, exit as leave
lazy import collections.abc


def unpacked(values):
    made = [*value for value in values if value]
    made = {*value for value in values}
    made = {**value for value in values}
    return made, (*value for value in values), list(*value for value in values)


async def awaited(values):
    return [*value async for value in values], (*await value for value in values)
