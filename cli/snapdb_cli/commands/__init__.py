"""The `snapdb` subcommands, and statement execution without a prompt.

Importing the package does not import its modules.
"""
