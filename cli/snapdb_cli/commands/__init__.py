"""The subcommands of `snapdb`, and the execution of statements without a prompt.

Importing the package loads none of its modules.
"""
