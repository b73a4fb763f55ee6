"""The command line, ``python -m dynamlir``: one file for each command, and those that they share."""
