"""The proxy pool: placement of sessions, SOCKS5 checks, health and failover."""
