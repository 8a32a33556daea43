"""Checks of everything that is stored against what was recorded, and backups, which are checked."""
