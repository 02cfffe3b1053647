"""Readers of foreign formats, mainly Kineto traces of torch.profiler."""
