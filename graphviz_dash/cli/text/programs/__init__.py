"""Text about whole programs: the results of a compiler."""
