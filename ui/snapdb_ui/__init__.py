"""`snapdb ui`: read-only pages of a database, served to browsers on this machine.

Importing the package does not import its modules.
"""
