"""Reports as web pages: one file with everything in it, to open in a browser and explore."""

from accelsim.show.html.reports import census_report, search_report

__all__ = ["census_report", "search_report"]
