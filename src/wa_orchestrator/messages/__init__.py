"""What several services ask about messages: sender candidates, the pace of a session, forecasts, uploads."""
