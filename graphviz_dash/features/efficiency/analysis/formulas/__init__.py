"""Work of operators from the shapes and data types of their inputs."""
