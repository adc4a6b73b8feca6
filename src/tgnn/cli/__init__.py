"""The command line: one file a verb. Nothing heavy is imported until a verb needs it."""
