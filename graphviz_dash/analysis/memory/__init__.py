"""What device memory is made of, and what graphs add to it."""
