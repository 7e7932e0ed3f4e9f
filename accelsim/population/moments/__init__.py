"""Exact means and standard deviations over all valid mappings of what adds up."""
