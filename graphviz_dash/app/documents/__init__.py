"""JSON documents of listings and imports, and the schemas of all documents."""
