"""Torch's allocator: history, extents, owners, statistics."""
