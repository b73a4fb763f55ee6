"""All ways in which Python reads a number from what keeps it: a grid of ways, kinds of containers and places."""
