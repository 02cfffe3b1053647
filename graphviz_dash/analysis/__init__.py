"""Pure functions that turn a run or an experiment into a frozen result."""
