"""The command line: one file per command. Heavy modules are imported only when a command needs them."""
