"""The subcommands of `snapdb`, and running statements without a prompt. Importing the package loads none of them."""
