"""Agents in: MCP over stdio and HTTP, REST, and the tables of everything that can be called.

It sees the mesh through one door, `mesh.ports.Requester`, and never imports `node`.  Pure: `specs`, `tools`,
`operations`, `arguments` and what they use, `jsonrpc`, `eras`, `lines`, `http_guard`, `rest`.  Between them and
the transports (`stdio`, `http_app`): `calling` and `dispatcher`.
"""
