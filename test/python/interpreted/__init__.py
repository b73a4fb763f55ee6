"""Functions for the interpreter to run, each about one thing; grouped as the interpreter's files of opcodes are.

Plain Python without imports from the project, so that every supported CPython can run it. A case is a function without
arguments; what it returns, prints and raises (with its traceback and what it was raised from) must be the same for CPython
and for the interpreter. `python -m interpreted EXTENSION` runs all cases both ways.
"""
