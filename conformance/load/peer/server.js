// The peer of `make bench`: oidc-provider in its fastest shape (in memory, any
// password is right, no consent), with clients for the same scenarios.
//
//   node server.js PORT READY_FILE
//
// The ready file has the keys of the one that `writ dev` writes, so that the
// clients drive both alike. Nothing here is for production.
import { createPublicKey, generateKeyPairSync, randomBytes } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';

import Provider, { errors } from 'oidc-provider';

const [port, readyFile] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const redirectURI = 'http://localhost:9999/callback';
const postLogoutRedirectURI = 'http://localhost:9999/';

// The adapter that comes with the package forgets all but the newest thousand
// entries, which no measurement can use. This one holds the newest 300,000: it
// must not grow for as long as the measurement runs.
const entries = new Map();
const byUid = new Map();
const byGrant = new Map();
const keep = 300_000;

class Memory {
  constructor(model) {
    this.model = model;
  }

  key(id) {
    return `${this.model}:${id}`;
  }

  async upsert(id, payload, expiresIn) {
    const key = this.key(id);
    if (payload.uid && this.model === 'Session') byUid.set(payload.uid, key);
    if (payload.grantId && this.model !== 'Grant') {
      const keys = byGrant.get(payload.grantId);
      if (keys) keys.add(key);
      else byGrant.set(payload.grantId, new Set([key]));
    }
    entries.set(key, { payload, expires: expiresIn ? Date.now() + expiresIn * 1000 : Infinity });
    if (entries.size > keep) this.forget(entries.keys().next().value);
  }

  forget(key) {
    const entry = entries.get(key);
    entries.delete(key);
    const grant = entry?.payload.grantId;
    const keys = grant && byGrant.get(grant);
    if (keys?.delete(key) && keys.size === 0) byGrant.delete(grant);
    if (entry?.payload.uid) byUid.delete(entry.payload.uid);
  }

  at(key) {
    const entry = entries.get(key);
    return entry && entry.expires > Date.now() ? entry.payload : undefined;
  }

  async find(id) {
    return this.at(this.key(id));
  }

  async findByUid(uid) {
    return this.at(byUid.get(uid));
  }

  async findByUserCode() {
    return undefined;
  }

  async consume(id) {
    this.at(this.key(id)).consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id) {
    this.forget(this.key(id));
  }

  async revokeByGrantId(grantId) {
    for (const key of byGrant.get(grantId) ?? []) entries.delete(key);
    byGrant.delete(grantId);
  }
}

function jwk(type, options, extra) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { privateKey, jwk: { ...privateKey.export({ format: 'jwk' }), use: 'sig', ...extra } };
}
const rsa = jwk('rsa', { modulusLength: 2048 }, { alg: 'RS256', kid: 'rsa' });
const ec = jwk('ec', { namedCurve: 'P-256' }, { alg: 'ES256', kid: 'ec' });
const clientKey = jwk('rsa', { modulusLength: 2048 }, { alg: 'RS256', kid: 'client' });

const app = {
  redirect_uris: [redirectURI],
  post_logout_redirect_uris: [postLogoutRedirectURI],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  scope: 'openid offline_access profile email',
};
const secret = randomBytes(24).toString('base64url');
const clients = {
  web: { ...app, token_endpoint_auth_method: 'client_secret_basic', client_secret: secret },
  es256: { ...app, token_endpoint_auth_method: 'client_secret_basic', client_secret: secret, id_token_signed_response_alg: 'ES256' },
  post: { ...app, token_endpoint_auth_method: 'client_secret_post', client_secret: secret },
  spa: { ...app, token_endpoint_auth_method: 'none' },
  jwt: {
    ...app, token_endpoint_auth_method: 'private_key_jwt',
    jwks: { keys: [{ ...createPublicKey(clientKey.privateKey).export({ format: 'jwk' }), kid: 'client', use: 'sig', alg: 'RS256' }] },
  },
  api: { redirect_uris: [], response_types: [], grant_types: ['client_credentials'], client_secret: secret },
  service: { redirect_uris: [], response_types: [], grant_types: ['client_credentials'], client_secret: secret, scope: 'call' },
};

const provider = new Provider(issuer, {
  adapter: Memory,
  clients: Object.entries(clients).map(([client_id, metadata]) => ({ client_id, ...metadata })),
  jwks: { keys: [rsa.jwk, ec.jwk] },
  cookies: { keys: [randomBytes(32).toString('hex')] },
  scopes: ['openid', 'offline_access', 'call'],
  claims: {
    openid: ['sub'], email: ['email', 'email_verified'],
    profile: ['name', 'given_name', 'family_name', 'preferred_username', 'updated_at'],
  },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    // An access token for a resource is a JWT, signed as the resource is called.
    resourceIndicators: {
      enabled: true,
      defaultResource: async () => undefined,
      useGrantedResource: async () => false,
      getResourceServerInfo: async (_ctx, resource) => {
        const alg = { 'urn:peer:RS256': 'RS256', 'urn:peer:ES256': 'ES256' }[resource];
        if (!alg) throw new errors.InvalidTarget();
        return { scope: 'call', accessTokenFormat: 'jwt', jwt: { sign: { alg } } };
      },
    },
  },
  pkce: { required: () => false },
  rotateRefreshToken: true,
  issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed('refresh_token'),
  findAccount: async (_ctx, id) => ({
    accountId: id,
    claims: async () => ({
      sub: id, name: 'Alice Default', given_name: 'Alice', family_name: 'Default', preferred_username: id,
      updated_at: 1763700000, email: id, email_verified: true,
    }),
  }),
  // No consent is asked for: what a client wants is granted.
  loadExistingGrant: async (ctx) => {
    const known = ctx.oidc.session.grantIdFor(ctx.oidc.client.clientId);
    const kept = known && (await ctx.oidc.provider.Grant.find(known));
    if (kept) return kept; // a refresh token that was used twice takes its grant away
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope('openid offline_access profile email');
    await grant.save();
    return grant;
  },
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  ttl: { AccessToken: 43200, ClientCredentials: 43200, IdToken: 43200, RefreshToken: 2592000, Grant: 2592000, Session: 86400, Interaction: 3600 },
});

const page = (field, type, login) => `<!doctype html><title>Log in</title><form method="post">
<input type="hidden" name="known" value="${encodeURIComponent(login)}"><input name="${field}" type="${type}"><button type="submit">Next</button></form>`;

// Two pages, as many as a login has with us: the login name, then the password.
async function interaction(req, res) {
  let text = '';
  for await (const chunk of req) text += chunk;
  const form = new URLSearchParams(text);
  if (form.has('password')) {
    const accountId = decodeURIComponent(form.get('known'));
    await provider.interactionFinished(req, res, { login: { accountId } });
    return;
  }
  await provider.interactionDetails(req, res); // as a real page would, to know what is asked
  res.setHeader('Content-Type', 'text/html; charset=utf-8');
  res.end(form.has('login_name') ? page('password', 'password', form.get('login_name')) : page('login_name', 'text', ''));
}

const callback = provider.callback();
createServer((req, res) => {
  if (!req.url.startsWith('/interaction/')) {
    callback(req, res);
    return;
  }
  interaction(req, res).catch((err) => {
    res.statusCode = 400;
    res.end(String(err));
  });
}).listen(Number(port), '127.0.0.1', () => {
  const client = (client_id) => ({
    client_id, client_secret: clients[client_id].client_secret,
    redirect_uri: redirectURI, post_logout_redirect_uri: postLogoutRedirectURI,
  });
  const keyFile = `${readyFile}.key`;
  writeFileSync(keyFile, JSON.stringify({
    type: 'application', keyId: 'client', clientId: 'jwt', key: clientKey.privateKey.export({ type: 'pkcs1', format: 'pem' }),
  }));
  const ready = {
    issuer,
    user: { login_name: 'alice@default.localhost', password: 'any', email: 'alice@default.localhost' },
    service_user: { ...client('service'), scope: 'call', basic_only: true },
    clients: { web: client('web'), es256: client('es256'), post: client('post'), spa: client('spa'), api: client('api'), jwt: { ...client('jwt'), key_file: keyFile } },
  };
  writeFileSync(`${readyFile}.new`, JSON.stringify(ready, null, 2));
  renameSync(`${readyFile}.new`, readyFile);
});
