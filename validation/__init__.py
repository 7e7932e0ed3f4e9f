"""Our numbers beside those of published chips and of other tools: `python -m validation`."""
