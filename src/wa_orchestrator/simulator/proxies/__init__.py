"""Simulated SOCKS5 proxies that route WhatsApp host names to the simulator."""
