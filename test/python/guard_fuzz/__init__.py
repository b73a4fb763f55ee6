"""Changes anything that a captured function can reach between its calls: grown programs, changes, comparison."""
