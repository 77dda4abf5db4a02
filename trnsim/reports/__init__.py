"""Results as text for people: comparisons and descriptions, for the terminal and in Markdown."""

from trnsim.reports.comparison import comparison_markdown, comparison_text
from trnsim.reports.description import description_text

__all__ = ["comparison_markdown", "comparison_text", "description_text"]
