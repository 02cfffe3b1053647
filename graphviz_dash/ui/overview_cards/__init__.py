"""The cards of the Overview page, and the process that makes the first ones."""
