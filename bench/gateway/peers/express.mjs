// The bare door on Express: key, JSON, one Lua call.
import express from 'express'
import { accept, mayCall } from './queue.mjs'

const app = express()
app.disable('x-powered-by')
app.disable('etag')
app.post(
  '/api/v1/send',
  (request, response, next) => {
    if (mayCall(request.get('x-api-key'))) return next()
    response.status(401).json({ error: { code: 'API_KEY_UNKNOWN' } })
  },
  express.json(),
  async (request, response) => {
    response.status(202).json(await accept(request.body))
  },
)
app.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('ready'))
