"""Versioned JSON documents."""
