"""What a CUDA graph would gain, predicted from an eager trace alone."""
