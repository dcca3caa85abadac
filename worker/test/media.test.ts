import assert from 'node:assert/strict'
import { test } from 'node:test'
import { storable } from '../src/messages/incoming-content.ts'
import { mediaUrl } from '../src/messages/media-download.ts'

test('a file is downloaded from the host of WhatsApp, whatever its sender writes for a path', () => {
  assert.equal(mediaUrl('/v/t62/a.enc?ccb=1').href, 'https://mmg.whatsapp.net/v/t62/a.enc?ccb=1')
  assert.equal(mediaUrl('//evil.example/x').host, 'mmg.whatsapp.net')
  assert.equal(mediaUrl('/\\\\evil.example').host, 'mmg.whatsapp.net')
  for (const path of [
    '@evil.example/x',
    '.evil.example/x',
    ':8080/x',
    'x',
    '',
    undefined,
    null,
    `/${'x'.repeat(5_000)}`,
  ])
    assert.throws(() => mediaUrl(path), /MEDIA_INVALID/)
})

test('what is stored of a file has no preview, no caption and no address', () => {
  const big = Buffer.alloc(1_000)
  const image = {
    mediaKey: Buffer.alloc(32),
    directPath: '/a',
    url: 'https://evil.example',
    jpegThumbnail: big,
    caption: 'c',
  }
  assert.deepEqual(Object.keys(storable({ imageMessage: image })?.imageMessage ?? {}).sort(), [
    'directPath',
    'fileEncSha256',
    'fileLength',
    'fileSha256',
    'mediaKey',
    'mediaKeyTimestamp',
  ])
  assert.equal(storable({ conversation: 'text' }), undefined)
})
