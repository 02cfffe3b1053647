"""Prediction of CUDA graph gains from an eager trace only."""
