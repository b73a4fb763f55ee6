"""Functions for the interpreter to run, each about one thing; grouped like the interpreter's files of opcodes.

Plain Python without imports from the project, so that every supported CPython can run it. A case is a function without
arguments. Its result, output and exception (with the traceback and the cause) must be the same for CPython and for the
interpreter. `python -m interpreted EXTENSION` runs all cases both ways.
"""
