"""The fast path of the two send routes: its own HTTP protocol, batching and pipelining."""
