"""The interactive prompt: reads and runs lines, and loads the user's configuration."""
