"""What launching graphs costs: microbenchmarks, own graphs, profilers."""
