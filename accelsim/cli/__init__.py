"""The command line: a command reads files, calls the library and prints."""
