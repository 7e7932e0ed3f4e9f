"""Results for people and for other programs: tables as text, CSV and pages, and figures."""
