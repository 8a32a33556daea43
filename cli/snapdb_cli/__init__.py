"""The command line: reads keystrokes and files, and writes results to stdout and diagnostics to stderr."""
