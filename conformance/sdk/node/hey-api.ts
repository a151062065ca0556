// What @hey-api/openapi-ts makes of the contract.

import { createClient } from './hey-api/client/index.js'
import { createTarget, deleteTarget, getTarget, patchTarget, searchTargets, token, type Target } from './hey-api/index.js'
import { check, env } from './check.js'

const name = env('WRIT_NAME')
const client = createClient({ baseUrl: env('WRIT_URL'), auth: (scheme) => (scheme.scheme === 'bearer' ? env('WRIT_TOKEN') : undefined) })
const target: Target = { name, restWebhook: { url: 'https://hooks.example/a' }, timeout: '10s', isAsync: true }
const created = await createTarget({ client, body: target, throwOnError: true })
const id = created.data.details.id
console.log('created', id)

const read = (await getTarget({ client, path: { id }, throwOnError: true })).data.target.target
check(read.name === name && read.restWebhook?.url === 'https://hooks.example/a' && read.timeout === '10s' && read.isAsync === true, read)
console.log('read', read.restRequestResponse ?? 'None')

const found = (await searchTargets({
  client,
  body: [{ name: { name: name.toUpperCase(), method: 'TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE' } }],
  query: { 'query.limit': 10, 'query.asc': true, sortingColumn: 'TARGET_FIELD_NAME_NAME' },
  throwOnError: true,
})).data
check(found.result.length === 1 && found.result[0]?.details.id === id && found.details.endOfList, found)
console.log('found', found.details.totalResult)

await patchTarget({ client, path: { id }, body: { timeout: '5s', restRequestResponse: { url: 'https://hooks.example/b' } }, throwOnError: true })
const patched = (await getTarget({ client, path: { id }, throwOnError: true })).data.target.target
check(patched.name === name && patched.timeout === '5s' && patched.restWebhook === undefined, patched)
console.log('patched', patched.restRequestResponse?.url)

const refused = await createTarget({ client, body: target })
console.log('refused', refused.response?.status, refused.error?.details[0]?.reason)

await deleteTarget({ client, path: { id }, throwOnError: true })
console.log('deleted', (await getTarget({ client, path: { id } })).response?.status)

const tokens = await token({
  client,
  body: { grant_type: 'client_credentials', scope: 'openid', client_id: env('WRIT_CLIENT_ID'), client_secret: env('WRIT_CLIENT_SECRET') },
  throwOnError: true,
})
console.log('token', tokens.data.token_type)
