"""Export of runs as Perfetto and Chrome traces."""
