"""Pages of docs/reference, written from the code by ``make docs``."""
