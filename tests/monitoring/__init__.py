"""The dashboard of deploy/ over a day of a fleet, as Prometheus and Grafana would show it."""
