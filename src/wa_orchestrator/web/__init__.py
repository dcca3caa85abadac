"""What HTTP services share: the app, authentication, errors, models, paging, OpenAPI, health."""
