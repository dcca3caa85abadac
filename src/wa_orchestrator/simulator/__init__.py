"""A WhatsApp for one machine: server, phones, SOCKS5 proxies and Telegram, on the wire and not as a mock.

The way of a message: a worker dials `proxies` by SOCKS5 (`socks`), which lead WhatsApp's names to `front`; `connection`
shakes hands (`noise`) and reads stanzas (`wire`); `messaging` books it in the `ledger` and lets the recipient's phone
decrypt it (`phonework`, `signal`). `world` puts everything together, `control` is its remote control, `command` runs it.
"""
