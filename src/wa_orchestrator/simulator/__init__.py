"""A WhatsApp for one machine: server, phones, SOCKS5 proxies and Telegram, with real network protocols.

The way of a message: a worker connects through a SOCKS5 proxy (`proxies/socks_server`), which connects WhatsApp's host
names to `whatsapp/listener`; `whatsapp/connection` performs the handshake (`protocol/noise`) and decodes stanzas
(`protocol/binary_xml`); `whatsapp/messages` records the message in the `ledger` and lets the recipient's phone decrypt
it (`phones/encryption`, `protocol/signal`). `world` runs everything, `control` is its HTTP API, `command` runs it by
itself, and `device_client` is a linked device without Node, for load tests and probes.
"""
