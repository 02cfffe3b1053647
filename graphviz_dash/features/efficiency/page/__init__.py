"""Parts of pages that show the distance from the hardware limit."""
