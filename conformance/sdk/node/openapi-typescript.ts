// What openapi-typescript makes of the contract, with openapi-fetch.

import createClient from 'openapi-fetch'
import type { components, paths } from './openapi-typescript/schema.js'
import { check, env } from './check.js'

const name = env('WRIT_NAME')
const client = createClient<paths>({ baseUrl: env('WRIT_URL'), headers: { Authorization: `Bearer ${env('WRIT_TOKEN')}` } })
const targets = '/resources/v3alpha/targets'
const target: components['schemas']['Target'] = { name, restWebhook: { url: 'https://hooks.example/a' }, timeout: '10s', isAsync: true }
const created = await client.POST(targets, { body: target })
const id = created.data?.details.id ?? ''
console.log('created', id)

const params = { path: { id } }
const read = (await client.GET(`${targets}/{id}`, { params })).data?.target.target
check(read?.name === name && read.restWebhook?.url === 'https://hooks.example/a' && read.timeout === '10s' && read.isAsync === true, read)
console.log('read', read?.restRequestResponse ?? 'None')

const found = (await client.POST(`${targets}/_search`, {
  params: { query: { 'query.limit': 10, 'query.asc': true, sortingColumn: 'TARGET_FIELD_NAME_NAME' } },
  body: [{ name: { name: name.toUpperCase(), method: 'TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE' } }],
})).data
check(found?.result.length === 1 && found.result[0]?.details.id === id && found.details.endOfList, found)
console.log('found', found?.details.totalResult)

await client.PATCH(`${targets}/{id}`, { params, body: { timeout: '5s', restRequestResponse: { url: 'https://hooks.example/b' } } })
const patched = (await client.GET(`${targets}/{id}`, { params })).data?.target.target
check(patched?.name === name && patched.timeout === '5s' && patched.restWebhook === undefined, patched)
console.log('patched', patched?.restRequestResponse?.url)

const refused = await client.POST(targets, { body: target })
console.log('refused', refused.response.status, refused.error?.details[0]?.['reason'])

await client.DELETE(`${targets}/{id}`, { params })
console.log('deleted', (await client.GET(`${targets}/{id}`, { params })).response.status)

const anonymous = createClient<paths>({ baseUrl: env('WRIT_URL') })
const tokens = await anonymous.POST('/oauth/v2/token', {
  body: { grant_type: 'client_credentials', scope: 'openid', client_id: env('WRIT_CLIENT_ID'), client_secret: env('WRIT_CLIENT_SECRET') },
  headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
})
console.log('token', tokens.data?.token_type)
