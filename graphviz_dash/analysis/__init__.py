"""Pure functions: a run or an experiment in, a frozen result out."""
