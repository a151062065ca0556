// What protoc-gen-es makes of the published descriptors, over Connect.

import { create } from '@bufbuild/protobuf'
import { Code, ConnectError, createClient, type Interceptor } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-node'
import { ServiceActions } from './connect-es/writ/action/v3alpha/action_service_pb.js'
import { TargetFieldName, TargetSchema } from './connect-es/writ/action/v3alpha/target_pb.js'
import { TextFilterMethod } from './connect-es/writ/object/v3alpha/object_pb.js'
import { check, env } from './check.js'

const name = env('WRIT_NAME')
const authorize: Interceptor = (next) => (request) => {
  request.header.set('Authorization', `Bearer ${env('WRIT_TOKEN')}`)
  return next(request)
}
// Once in protobuf, and its last steps in JSON.
const [client, inJSON] = [true, false].map((useBinaryFormat) =>
  createClient(ServiceActions, createConnectTransport({ baseUrl: env('WRIT_URL'), httpVersion: '1.1', useBinaryFormat, interceptors: [authorize] })))
if (!client || !inJSON) throw new Error('no client')

const target = create(TargetSchema, {
  name, targetType: { case: 'restWebhook', value: { url: 'https://hooks.example/a' } }, timeout: { seconds: 10n },
  executionType: { case: 'isAsync', value: true },
})
const id = (await client.createTarget({ target })).details?.id ?? ''
console.log('created', id)

const read = (await client.getTarget({ id })).target?.target
check(read?.name === name && read.targetType.case === 'restWebhook' && read.targetType.value.url === 'https://hooks.example/a' && read.timeout?.seconds === 10n, read)
console.log('read', read?.executionType.case === 'isAsync' ? 'None' : read)

const found = await inJSON.searchTargets({
  query: { limit: 10, asc: true }, sortingColumn: TargetFieldName.NAME,
  filters: [{ filter: { case: 'name', value: { name: name.toUpperCase(), method: TextFilterMethod.EQUALS_IGNORE_CASE } } }],
})
check(found.result.length === 1 && found.result[0]?.details?.id === id && found.details?.endOfList === true, found)
console.log('found', String(found.details?.totalResult))

await inJSON.patchTarget({ id, target: { timeout: { seconds: 5n }, targetType: { case: 'restRequestResponse', value: { url: 'https://hooks.example/b' } } } })
const patched = (await client.getTarget({ id })).target?.target
check(patched?.name === name && patched.timeout?.seconds === 5n && patched.targetType.case === 'restRequestResponse', patched)
console.log('patched', patched?.targetType.value?.url)

try {
  await inJSON.createTarget({ target })
} catch (refusal) {
  const error = ConnectError.from(refusal)
  const info = error.details.find((detail) => 'debug' in detail) as { debug?: { reason?: string } } | undefined
  console.log('refused', Code[error.code], info?.debug?.reason)
}

await client.deleteTarget({ id })
try {
  await client.getTarget({ id })
} catch (refusal) {
  console.log('deleted', Code[ConnectError.from(refusal).code])
}
