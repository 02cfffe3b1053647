"""Collection of workloads: passes, progress, environment and the collect command."""
