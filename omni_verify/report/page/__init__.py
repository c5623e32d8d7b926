"""Files of the HTML report: template, style, script, and uPlot (1.6.32, MIT) for the charts.

A package of its own, so that a wheel carries them by the patterns of ``pyproject.toml``.
"""
