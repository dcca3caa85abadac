"""Dashboard routes other than pages: buttons, JSON for scripts, the simulated scan."""
