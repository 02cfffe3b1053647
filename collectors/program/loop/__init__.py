"""The loop of a program with many graphs: events recorded at runtime, and their interpretation."""
