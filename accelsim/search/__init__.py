"""Searches of the map space."""
