// oidc-provider as an identity provider: whoever signs in at its own pages is that person.
//
//   node provider.js PORT REDIRECT_URI CLIENT_ID CLIENT_SECRET
import Provider from 'oidc-provider';

const [port, redirectURI, clientID, clientSecret] = process.argv.slice(2);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: clientID, client_secret: clientSecret, redirect_uris: [redirectURI], grant_types: ['authorization_code'], response_types: ['code'] }],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'given_name', 'family_name', 'preferred_username'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@peer.example`, email_verified: true, name: 'Ada Peer', given_name: 'Ada', family_name: 'Peer', preferred_username: id }),
  }),
  pkce: { required: () => true },
  features: { devInteractions: { enabled: true } },
  cookies: { keys: ['of one test'] },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
