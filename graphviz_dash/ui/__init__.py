"""The Streamlit application: pages, state in the URL, routes and components."""
