// A relying party that is openid-client, unmodified. The Go test is the browser
// and the operator: every line on stdout asks it for something, every line on
// stdin is the answer. The first line on stdin says whom to talk to.
//
//   {"open": URL, "until": PREFIX}  visit; the answer is {"url": …} or {"error": …}
//   {"forget": true}                from now on a browser without cookies
//   {"rotate": true}                the provider signs with a new key: {"rotated": true}
//   {"done": STEP}                  a step succeeded; there is no answer
import assert from 'node:assert/strict';
import { createPrivateKey, webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import * as oidc from 'openid-client';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const receive = async () => JSON.parse((await lines.next()).value);
const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const done = (step) => send({ done: step });
async function ask(question) {
  send(question);
  const answer = await receive();
  if (answer.error) throw new Error(answer.error);
  return answer;
}

const { issuer, user, service_user: service, clients } = await receive();
const scope = 'openid profile email offline_access';

// Every use of a Configuration checks signatures, also of what came over TLS.
async function configure(client, authentication) {
  const config = await oidc.discovery(new URL(issuer), client.client_id, undefined, authentication, { execute: [oidc.allowInsecureRequests] });
  oidc.enableNonRepudiationChecks(config);
  return config;
}

async function privateKey(file, algorithm) {
  const { key, keyId } = JSON.parse(readFileSync(file, 'utf8'));
  const der = createPrivateKey(key).export({ type: 'pkcs8', format: 'der' });
  return { key: await webcrypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign']), kid: keyId };
}

async function logIn(config, client, extra = {}) {
  const verifier = oidc.randomPKCECodeVerifier();
  const state = oidc.randomState();
  const nonce = oidc.randomNonce();
  const start = oidc.buildAuthorizationUrl(config, {
    redirect_uri: client.redirect_uri, scope, state, nonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier), code_challenge_method: 'S256', ...extra,
  });
  const { url } = await ask({ open: start.href, until: client.redirect_uri });
  return oidc.authorizationCodeGrant(config, new URL(url), {
    pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true,
  });
}

// A 401 that says how to authenticate is an error of its own to openid-client,
// which then leaves the body unread.
async function refuses(promise, code) {
  const err = await promise.then(() => assert.fail(`it succeeded, want ${code}`), (reason) => reason);
  const challenged = err.code === 'OAUTH_WWW_AUTHENTICATE_CHALLENGE' ? (await err.response.json()).error : undefined;
  assert.equal(err.error ?? challenged ?? err.code, code, String(err.stack));
}

function keyOf(idToken) {
  return JSON.parse(Buffer.from(idToken.split('.')[0], 'base64url').toString()).kid;
}

// Every way to authenticate gets tokens.
const rs256 = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
const { web, post, spa, jwt, api } = clients;
const methods = {
  client_secret_basic: [web, oidc.ClientSecretBasic(web.client_secret)],
  client_secret_post: [post, oidc.ClientSecretPost(post.client_secret)],
  none: [spa, oidc.None()],
  private_key_jwt: [jwt, oidc.PrivateKeyJwt(await privateKey(jwt.key_file, rs256))],
};
for (const [method, [client, authentication]] of Object.entries(methods)) {
  await ask({ forget: true });
  const config = await configure(client, authentication);
  const tokens = await logIn(config, client);
  assert.equal(tokens.token_type, 'bearer');
  assert.ok(tokens.expiresIn() > 0);
  const renewed = await oidc.refreshTokenGrant(config, tokens.refresh_token);
  assert.equal(renewed.claims()?.sub ?? tokens.claims().sub, tokens.claims().sub);
  if (method !== 'none') {
    const seen = await oidc.tokenIntrospection(config, renewed.access_token).catch((err) => err);
    if (method !== 'client_secret_post') assert.equal(seen.active, true, `${method}: ${seen}`); // not a method of introspection
  }
  await oidc.tokenRevocation(config, renewed.refresh_token);
  await refuses(oidc.refreshTokenGrant(config, renewed.refresh_token), 'invalid_grant');
  done(`login, refresh and revocation with ${method}`);
}

// The whole life of a login.
await ask({ forget: true });
let config = await configure(web, oidc.ClientSecretBasic(web.client_secret));
const tokens = await logIn(config, web);
const claims = tokens.claims();
assert.equal(claims.iss, config.serverMetadata().issuer);
assert.ok(typeof claims.auth_time === 'number' || claims.auth_time === undefined);
done('ID token');

const info = await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
assert.equal(info.email, user.email);
assert.ok(info.name);
done('userinfo');

const resource = await configure(api, oidc.ClientSecretBasic(api.client_secret));
const seen = await oidc.tokenIntrospection(resource, tokens.access_token);
assert.equal(seen.active, true, JSON.stringify(seen));
assert.equal(seen.sub, claims.sub);
assert.equal(seen.client_id, web.client_id);
done('introspection by an API');

const silent = await logIn(config, web, { prompt: 'none' });
assert.equal(silent.claims().sub, claims.sub);
assert.notEqual(silent.access_token, tokens.access_token);
done('single sign-on');

const again = await logIn(config, web, { max_age: '3600' });
assert.ok(again.claims().auth_time > 0, 'max_age asks for auth_time');
done('max_age');

const { rotated } = await ask({ rotate: true });
config = await configure(web, oidc.ClientSecretBasic(web.client_secret)); // a client that starts now
const renewed = await oidc.refreshTokenGrant(config, tokens.refresh_token);
assert.notEqual(renewed.refresh_token, tokens.refresh_token);
if (renewed.id_token) {
  assert.equal(renewed.claims().sub, claims.sub);
  if (rotated) assert.notEqual(keyOf(renewed.id_token), keyOf(tokens.id_token));
}
const after = await logIn(config, web);
if (rotated) assert.notEqual(keyOf(after.id_token), keyOf(tokens.id_token));
done('a rotation of the signing key');

await refuses(oidc.refreshTokenGrant(config, tokens.refresh_token), 'invalid_grant');
done('a refresh token is good once');

const other = await logIn(config, web);
await oidc.tokenRevocation(config, other.access_token);
assert.equal((await oidc.tokenIntrospection(resource, other.access_token)).active, false);
await assert.rejects(oidc.fetchUserInfo(config, other.access_token, claims.sub));
await oidc.tokenRevocation(config, 'no such token');
done('revocation');

const wanted = { scope: service.scope ?? 'openid' };
for (const method of service.basic_only ? [oidc.ClientSecretBasic] : [oidc.ClientSecretBasic, oidc.ClientSecretPost]) {
  const granted = await oidc.clientCredentialsGrant(await configure(service, method(service.client_secret)), wanted);
  assert.ok(granted.access_token);
  assert.equal(granted.id_token, undefined);
}
await refuses(oidc.clientCredentialsGrant(await configure(service, oidc.ClientSecretBasic('wrong')), wanted), 'invalid_client');
done('client_credentials');

// The hint was signed with the key before the rotation.
const state = oidc.randomState();
const end = oidc.buildEndSessionUrl(config, {
  post_logout_redirect_uri: web.post_logout_redirect_uri, id_token_hint: tokens.id_token, state,
});
const back = new URL((await ask({ open: end.href, until: web.post_logout_redirect_uri })).url);
assert.equal(back.searchParams.get('state'), state);
await refuses(logIn(config, web, { prompt: 'none' }), 'login_required');
done('logout');
process.stdin.destroy(); // nothing keeps the process from ending now
