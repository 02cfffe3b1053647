"""On-disk format of a run: schema, writer and reader."""
