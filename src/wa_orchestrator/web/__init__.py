"""What the HTTP services share: who calls, how errors are told, how an application is put together."""
