"""Found by whoever asks whether cuda-python is there; the fake torch brings the content."""
