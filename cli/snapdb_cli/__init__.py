"""The command line: keystrokes and files in, bytes out."""
