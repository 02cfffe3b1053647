"""The application: pages, commands and documents of all features put together."""
