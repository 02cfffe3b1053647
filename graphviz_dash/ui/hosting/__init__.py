"""Server around Streamlit's pages: documents, static files, sockets, lifespan."""
