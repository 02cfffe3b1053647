"""Record many short workloads to calibrate and evaluate predictions."""
