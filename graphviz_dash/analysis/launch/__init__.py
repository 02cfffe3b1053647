"""Cost of launching graphs: microbenchmarks, program graphs, profilers."""
