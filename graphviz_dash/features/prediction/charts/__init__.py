"""Charts of predicted schedules."""
