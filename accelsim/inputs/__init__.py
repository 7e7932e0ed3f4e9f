"""Input files: YAML text to fields that know their place."""
