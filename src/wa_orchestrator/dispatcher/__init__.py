"""Routes and paces messages: `gateway:jobs` → `queue:session:<phone>` → `session:outbox:<id>`. Any number may run."""
