"""What a run looks like: tables, plots, and the page."""
