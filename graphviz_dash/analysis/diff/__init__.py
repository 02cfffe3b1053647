"""Two captured graphs against each other, and whether one could be updated to the other."""
