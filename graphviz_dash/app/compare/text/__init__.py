"""Terminal output of a comparison."""
