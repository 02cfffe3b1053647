"""Loops of programs: steps, keys, sizes and padding of replayed graphs."""
