"""How many messages a second the gateway takes in durably, beside a bare Express and a bare Fastify."""
