"""The prompt: reading lines, running them, and what a person configures."""
