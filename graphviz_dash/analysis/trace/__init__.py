"""Information in a single trace: steps, lanes, API calls, kernel categories and names."""
