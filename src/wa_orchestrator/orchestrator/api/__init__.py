"""HTTP routes of the orchestrator: for clients, for operators and for workers."""
