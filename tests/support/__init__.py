"""Helpers that tests of several layers share. Test files do not import each other."""
