"""Events in Redis: the stream and its followers, alerts, webhooks, worker events, activity, summaries."""
