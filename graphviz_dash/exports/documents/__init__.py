"""The versioned JSON documents."""
