"""The peer process: log, projections, index, embedder, service, command line."""
