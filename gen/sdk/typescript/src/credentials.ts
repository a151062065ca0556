import { WritError } from "./errors.js";
import type { OAuth } from "./oauth.js";
import type { TokenReply } from "./types.js";

/** Asks for a token that the resource API accepts. */
export const apiScope = "openid urn:service:iam:org:project:id:service:aud";

/** What a token source gets. */
export interface AccessToken {
  value: string;
  /** When it ends, in milliseconds since 1970; undefined if it does not. */
  expires?: number;
}

/**
 * Gets access tokens. A client asks when it needs one and remembers it until shortly before it ends, so a source need
 * not; and it asks once at a time.
 */
export interface TokenSource {
  accessToken(oauth: OAuth): Promise<AccessToken>;
}

/** A personal access token, a source of tokens, or a function that gets one from elsewhere. */
export type Credentials = string | TokenSource | (() => AccessToken | Promise<AccessToken>);

/** The ID and secret of a service user (client_credentials). */
export function clientCredentials(options: { id: string; secret: string; scope?: string }): TokenSource {
  return {
    async accessToken(oauth) {
      const { id, secret, scope = apiScope } = options;
      return received(await oauth.token({ grant_type: "client_credentials", scope }, { client: { id, secret }, repeatable: true }));
    },
  };
}

/** The key file of a service user: what createMachineKey answers in keyDetails, decoded. */
export interface KeyFile {
  type?: string;
  keyId: string;
  /** The private key in PEM. */
  key: string;
  userId: string;
}

/** A service user that signs for itself with the key of its key file (JWT profile, RFC 7523). */
export function keyFile(file: KeyFile | string, options: { scope?: string; audience?: string } = {}): TokenSource {
  const { keyId, key, userId } = typeof file === "string" ? (JSON.parse(file) as KeyFile) : file;
  if (!keyId || !key || !userId) throw new WritError("the key file lacks keyId, key or userId");
  const signed = signer(userId, key, keyId, options.audience);
  return {
    async accessToken(oauth) {
      // An assertion is good once, so this is not repeated when its answer was lost.
      const { value: assertion } = await signed(oauth);
      const request = { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion, scope: options.scope ?? apiScope };
      return received(await oauth.token(request, { client: { id: "" } }));
    },
  };
}

/** A user of the installation (`writ serve --system-users`), who signs tokens for itself; the key is private, in PEM. */
export function systemUser(options: { name: string; key: string; audience?: string }): TokenSource {
  return { accessToken: signer(options.name, options.key, undefined, options.audience) };
}

/** Makes JWTs that somebody signs about itself, for five minutes. */
function signer(name: string, key: string, keyId: string | undefined, audience: string | undefined): (oauth: OAuth) => Promise<AccessToken> {
  let imported: Promise<SigningKey> | undefined;
  return async (oauth) => {
    const issuer = audience ?? (await oauth.getConfiguration()).issuer;
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: name, sub: name, aud: issuer, iat: now, exp: now + 300, jti: crypto.randomUUID() };
    return { value: await sign(await (imported ??= importKey(key)), keyId, claims), expires: claims.exp * 1000 };
  };
}

/**
 * A refresh token of an app. Each use gives another one and ends it, so however many calls want a token, one asks.
 * `save` stores the token that comes next, before the access token that came along is used: a process that starts
 * again needs it. When it fails, the call does, and the next one saves first.
 */
export function refreshToken(options: {
  clientId: string;
  /** A public client has none. */
  clientSecret?: string;
  refreshToken: string;
  save?: (refreshToken: string) => void | Promise<void>;
}): TokenSource {
  let current = options.refreshToken;
  let unsaved = false;
  const save = async () => {
    if (unsaved) await options.save?.(current);
    unsaved = false;
  };
  let turn: Promise<unknown> = Promise.resolve();
  const refresh = async (oauth: OAuth): Promise<AccessToken> => {
    await save();
    const { clientId: id, clientSecret: secret } = options;
    const reply = await oauth.token({ grant_type: "refresh_token", refresh_token: current }, { client: secret ? { id, secret } : { id } });
    if (reply.refresh_token !== undefined && reply.refresh_token !== current) {
      current = reply.refresh_token;
      unsaved = true;
      await save();
    }
    return received(reply);
  };
  return {
    accessToken(oauth) {
      // One after the other, also when several clients share the source.
      const next = turn.then(() => refresh(oauth));
      turn = next.catch(() => undefined);
      return next;
    },
  };
}

function received(reply: TokenReply): AccessToken {
  return { value: reply.access_token, expires: Date.now() + reply.expires_in * 1000 };
}

interface SigningKey {
  key: CryptoKey;
  name: string;
  algorithm: AlgorithmIdentifier | RsaPssParams | EcdsaParams;
}

async function importKey(pem: string): Promise<SigningKey> {
  const match = /-----BEGIN ([A-Z ]+)-----([\s\S]+?)-----END/.exec(pem);
  if (!match?.[1] || !match[2]) throw new WritError("the private key is not PEM");
  let der = Uint8Array.from(atob(match[2].replace(/\s/g, "")), (char) => char.charCodeAt(0));
  if (match[1] === "RSA PRIVATE KEY") der = wrapped(der);
  const kinds = [
    { name: "RS256", parameters: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" }, algorithm: { name: "RSASSA-PKCS1-v1_5" } },
    { name: "ES256", parameters: { name: "ECDSA", namedCurve: "P-256" }, algorithm: { name: "ECDSA", hash: "SHA-256" } },
    { name: "EdDSA", parameters: { name: "Ed25519" }, algorithm: { name: "Ed25519" } },
  ];
  for (const { name, parameters, algorithm } of kinds) {
    try {
      const key = await crypto.subtle.importKey("pkcs8", der, parameters, false, ["sign"]);
      return { key, name, algorithm };
    } catch {
      // a key of another kind
    }
  }
  throw new WritError("the private key is neither RSA, P-256 nor Ed25519, or it is broken");
}

/** Makes PKCS #8, which WebCrypto reads, of PKCS #1. */
function wrapped(pkcs1: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  const tagged = (tag: number, content: number[]): number[] => {
    const size = content.length;
    const length = size < 128 ? [size] : size < 256 ? [0x81, size] : [0x82, size >> 8, size & 255];
    return [tag, ...length, ...content];
  };
  const version = [0x02, 0x01, 0x00];
  const rsaEncryption = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
  return Uint8Array.from(tagged(0x30, [...version, ...rsaEncryption, ...tagged(0x04, [...pkcs1])]));
}

async function sign(key: SigningKey, keyId: string | undefined, claims: object): Promise<string> {
  const encoded = (value: object) => base64url(new TextEncoder().encode(JSON.stringify(value)));
  const signed = `${encoded({ alg: key.name, kid: keyId, typ: "JWT" })}.${encoded(claims)}`;
  const signature = await crypto.subtle.sign(key.algorithm, key.key, new TextEncoder().encode(signed));
  return `${signed}.${base64url(new Uint8Array(signature))}`;
}

export function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** How long before its end a token is not used any more, in milliseconds. */
const early = 30_000;

/** Remembers the token of a source. */
export class Tokens {
  oauth!: OAuth;
  private token: AccessToken | undefined;
  private goodUntil = 0;
  private asking: Promise<string> | undefined;

  constructor(private readonly credentials: Credentials) {}

  /** A token that is still good. One call asks the source, and the others wait for it. */
  get(): Promise<string> {
    if (this.token && Date.now() < this.goodUntil) return Promise.resolve(this.token.value);
    return (this.asking ??= this.ask().finally(() => (this.asking = undefined)));
  }

  private async ask(): Promise<string> {
    const { credentials } = this;
    const token =
      typeof credentials === "string" ? { value: credentials }
      : typeof credentials === "function" ? await credentials()
      : await credentials.accessToken(this.oauth);
    if (!token.value || /[\s]/.test(token.value)) throw new WritError("the token source got no access token");
    const now = Date.now();
    this.token = token;
    this.goodUntil = token.expires === undefined ? Infinity : token.expires - Math.min(early, (token.expires - now) / 2);
    return token.value;
  }

  /** Forgets a token that was refused, and says whether asking for another may help. */
  drop(token: string): boolean {
    if (typeof this.credentials === "string") return false;
    if (this.token?.value === token) this.token = undefined;
    return true;
  }
}
