"""A world that a capture may look at and must not touch: what is in it, the programs, and how it is watched."""
