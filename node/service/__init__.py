"""The operations of a peer: authentication, scopes, and one module per concern."""
