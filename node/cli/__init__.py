"""The command line.  Nothing is imported here: `hyphae mcp serve` must start without click."""
