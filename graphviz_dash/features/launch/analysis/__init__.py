"""Launch costs by topology and size, and their fit."""
