"""What a worker costs in memory and CPU, beside a plain Baileys process in the same run: `python -m bench.worker`."""
