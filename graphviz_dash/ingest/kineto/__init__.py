"""Reader of Kineto JSON into trace tables."""
