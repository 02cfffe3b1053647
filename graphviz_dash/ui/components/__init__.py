"""Components of our own: canvases fed from routes of the same server."""
