"""Reports as web pages: one file with everything in it, to open in a browser and explore."""
