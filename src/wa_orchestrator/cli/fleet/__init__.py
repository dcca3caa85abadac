"""Commands about sessions and proxies: list, create, link, follow."""
