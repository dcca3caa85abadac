"""What every HTTP service shares: its context, who may call, how errors and pages look, health and metrics."""
