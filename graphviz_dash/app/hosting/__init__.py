"""Server: start, access, speed-ups and everything that touches internals of Streamlit."""
