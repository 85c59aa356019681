"""A service: scores over HTTP, or as tools of an MCP server."""
