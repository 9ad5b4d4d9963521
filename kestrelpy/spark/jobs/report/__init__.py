"""The report: figures, plots, and a page of HTML."""
