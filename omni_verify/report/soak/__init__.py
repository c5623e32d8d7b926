"""The report of a soak: view, plots, Markdown and live figures."""
