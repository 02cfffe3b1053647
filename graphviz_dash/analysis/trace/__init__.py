"""What a trace says by itself: steps, lanes, API calls, kernel categories and names."""
