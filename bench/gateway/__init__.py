"""Messages per second that the gateway accepts durably, compared with a bare Express and a bare Fastify."""
