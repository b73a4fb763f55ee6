"""All ways in which Python reads a number from its container: a grid of ways, kinds of containers and places."""
