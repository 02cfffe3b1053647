"""Accuracy of work, limits and predicted savings of operators."""
