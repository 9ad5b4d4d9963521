"""The report: figures, plots, a page."""
