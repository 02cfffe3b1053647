"""The runs of an experiment against their baseline, and the gate for builds."""
