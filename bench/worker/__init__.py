"""Memory and CPU of a worker, compared with a plain Baileys process in the same run: `python -m bench.worker`."""
