"""A WhatsApp for one machine: server, phones, SOCKS5 proxies and Telegram, on the wire and not as a mock.

The way of a message: a worker dials one of the `proxies` by SOCKS5 (`socks`), which leads WhatsApp's names to `front`;
`connection` shakes hands (`noise`) and reads stanzas (`wire`); `messaging` books the message in the `ledger` and lets
the recipient's phone decrypt it (`phonework`, `signal`). `world` puts everything together, `control` steers it from
outside, `command` runs it by itself, and `client` is a linked device without Node, for loads and probes.
"""
