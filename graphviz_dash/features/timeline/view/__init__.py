"""View model of the timeline."""
