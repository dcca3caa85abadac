// The bare door on Fastify: key, JSON, one Lua call.
import Fastify from 'fastify'
import { accept, mayCall } from './queue.mjs'

const app = Fastify({ logger: false })
app.post(
  '/api/v1/send',
  {
    onRequest: async (request, reply) => {
      if (!mayCall(request.headers['x-api-key'])) return reply.code(401).send({ error: { code: 'API_KEY_UNKNOWN' } })
    },
  },
  async (request, reply) => {
    const taken = await accept(request.body)
    return reply.code(202).send(taken)
  },
)
await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
console.log('ready')
