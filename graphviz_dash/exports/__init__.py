"""Export results as files: reports, tables, graphs, and Perfetto or Chrome traces."""
