"""A world that a capture may read and must not change: its contents, the programs, and the means to watch it."""
