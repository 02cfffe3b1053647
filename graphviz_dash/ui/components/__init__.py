"""Custom components: canvases that load data from routes of the same server."""
