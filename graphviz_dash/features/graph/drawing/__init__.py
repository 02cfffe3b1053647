"""Layout and view model of the DAG."""
