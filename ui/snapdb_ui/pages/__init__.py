"""The pages: what each reads, and which template shows it."""
