"""Results in, files out: Perfetto and Chrome JSON."""
