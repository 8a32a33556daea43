"""Completion of statements and of the commands of the prompt."""
