"""Foreign formats in: the Kineto traces of torch.profiler."""
