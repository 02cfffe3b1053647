"""Analysis of torch.compile: compiled structure of a step, time breakdown and gains from fixes."""
