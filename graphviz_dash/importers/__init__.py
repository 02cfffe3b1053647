"""Import of foreign files into run bundles: detection, grouping and conversion."""
