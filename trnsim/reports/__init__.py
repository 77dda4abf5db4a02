"""Results as text for people: comparisons and descriptions, for the terminal and in Markdown."""

from trnsim.reports.calibration import calibration_text
from trnsim.reports.comparison import comparison_markdown, comparison_text
from trnsim.reports.description import description_text

__all__ = ["calibration_text", "comparison_markdown", "comparison_text", "description_text"]
