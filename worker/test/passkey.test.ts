// The numbers of a passkey ceremony, against values that were computed independently from both sides' view.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import test from 'node:test'
import { Curve } from 'baileys'
import {
  codeOf,
  handoffKey,
  identityBytes,
  pairingKey,
  platformOf,
  prologuePayload,
} from '../src/connection/passkey.ts'

const filled = (byte: number): Buffer => Buffer.alloc(32, byte)
const REF = '2@TESTREF'
const COMPANION = Buffer.from('7b4e909bbe7ffe44c465a220037d608ee35897d31ef972f07f74892cb0f73f13', 'hex')
const PRIMARY = Buffer.from('0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f20', 'hex')
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('the identity, the commitment and the proof are those of the reference', () => {
  const identity = identityBytes(COMPANION, 1, REF)
  assert.equal(hex(identity), `0a20${hex(COMPANION)}10011a09324054455354524546`)
  const payload = prologuePayload(identity, filled(0x33))
  assert.equal(
    hex(payload),
    `0a2f${hex(identity)}12220a20a3e548e9e340f8ee331f1186eb8c5af468fa8fab926e7e350f29108110d08b7a`,
  )
  const key = handoffKey(filled(0x55))
  assert.equal(hex(key), '573a1b8d099e43c0b9e9d4bf6bd2b96ccb89579b524177d296337a277bc8b513')
  const proof = createHmac('sha256', key).update(payload).digest('hex')
  assert.equal(proof, 'f8be602d1be2ff42dc47fb552a34fac4ae6a1d1aa9f67f2eb1a31a93c412a9b4')
})

test('the code and the key of the pairing are those of the reference', () => {
  assert.equal(codeOf(filled(0x33), PRIMARY, filled(0x44)), 'PYSL-SH11')
  const shared = Curve.sharedKey(filled(0x11), PRIMARY)
  assert.equal(hex(shared), '9e004098efc091d4ec2663b4e9f5cfd4d7064571690b4bea97ab146ab9f35056')
  assert.equal(hex(pairingKey(shared, 1, REF)), '983e5b1a2caf3adcd8137e16680de2de6596cd814bb6dfcbbe5d801e89fea704')
})

test('the platform is the one under which the device is registered', () => {
  assert.equal(platformOf('Chrome'), 1)
  assert.equal(platformOf('Something else'), 1)
})
