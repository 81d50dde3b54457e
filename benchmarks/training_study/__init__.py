"""Training benchmark: tasks, methods, records and their page."""
