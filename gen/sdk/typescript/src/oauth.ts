import type { CallOptions } from "./core.js";
import { base64url } from "./credentials.js";
import { OAuthService } from "./services.js";
import type { TokenReply } from "./types.js";

/**
 * A login that begins: send the browser to `url`, remember the rest in its session, and compare `state` with what
 * comes back before you call `exchange`.
 */
export interface Authorization {
  url: string;
  state: string;
  nonce: string;
  verifier: string;
}

export interface AuthorizeOptions {
  clientId: string;
  redirectUri: string;
  /** "openid" when omitted. */
  scope?: string;
  /** What else the endpoint takes: prompt, login_hint, ui_locales, … */
  parameters?: Record<string, string>;
}

/** OAuthService and what is made of several of its calls. */
export class OAuth extends OAuthService {
  /** Makes the address at which a login begins (authorization code with PKCE). */
  async authorize(options: AuthorizeOptions): Promise<Authorization> {
    const { authorization_endpoint } = await this.getConfiguration();
    const [state, nonce, verifier] = [random(), random(), random()];
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier)));
    const query = new URLSearchParams({
      client_id: options.clientId, redirect_uri: options.redirectUri, response_type: "code", scope: options.scope ?? "openid",
      state, nonce, code_challenge: base64url(hash), code_challenge_method: "S256", ...options.parameters,
    });
    return { url: `${authorization_endpoint}?${query}`, state, nonce, verifier };
  }

  /**
   * Gets the tokens for the code that came back; `options.client` names the client. What the ID token says is yours
   * to verify, with the keys of `getKeys` and the nonce.
   */
  exchange(code: string, redirectUri: string, verifier: string, options: CallOptions = {}): Promise<TokenReply> {
    return this.token({ grant_type: "authorization_code", code, redirect_uri: redirectUri, code_verifier: verifier }, options);
  }

  /** Makes the address at which a browser signs out. */
  async endSession(options: { idToken?: string; postLogoutRedirectUri?: string; state?: string } = {}): Promise<string> {
    const { end_session_endpoint } = await this.getConfiguration();
    const query = new URLSearchParams();
    if (options.idToken) query.set("id_token_hint", options.idToken);
    if (options.postLogoutRedirectUri) query.set("post_logout_redirect_uri", options.postLogoutRedirectUri);
    if (options.state) query.set("state", options.state);
    return `${end_session_endpoint}?${query}`;
  }
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}
