"""The command line, ``python -m dynamlir``: one file for each command, and those that they share.

A command's file has its texts (``HELP``, ``DESCRIPTION``, ``EXAMPLES``), ``add_arguments``, ``main``, which returns the
exit status, and ``before_import``, which says if it runs before torch and the package are imported. The list of them is
in `command_line`. Imports that take time are within functions.
"""
