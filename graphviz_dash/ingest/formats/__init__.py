"""Readers of other foreign formats: debug DOT, Nsight Systems, snapshots, graph data."""
