"""The command line: it reads keystrokes and files, and writes results to stdout and diagnostics to stderr."""
