import { Core } from "./core.js";
import { Tokens, clientCredentials, type Credentials } from "./credentials.js";
import { WritError } from "./errors.js";
import { OAuth } from "./oauth.js";
import { Services } from "./services.js";

/**
 * Which server is called, and as whom. What is left out comes from the environment where there is one and a variable
 * for it; `writ exec` sets them all.
 */
export interface WritClientOptions {
  /** Where the server is: WRIT_BASE_URL, else OIDC_ISSUER. The host decides which instance is called. */
  baseUrl?: string;
  /**
   * Gets the access tokens: a personal access token, `clientCredentials`, `keyFile`, `refreshToken`, `systemUser`, or
   * a source of your own. Otherwise WRIT_ADMIN_TOKEN, else the client credentials CLIENT_ID and CLIENT_SECRET, else none.
   */
  credentials?: Credentials;
  /** Who calls the OAuth endpoints: CLIENT_ID and CLIENT_SECRET. */
  client?: { id: string; secret?: string };
  /** Sends the requests: for proxies and test doubles. */
  fetch?: typeof globalThis.fetch;
  /** The most milliseconds that a call may take, with all its attempts and waits: a minute; 0 is no limit. */
  timeout?: number;
  /** How many further attempts there may be after one that failed: 2; 0 switches them off. */
  retries?: number;
  /** Sent along with each request. */
  headers?: Record<string, string>;
  /** Sees each attempt before it is sent and may change its headers, say to add a traceparent. */
  onRequest?: (request: Request) => void | Promise<void>;
  /** Sees how each attempt ended. It is the place to log; requests carry secrets, so log no headers or bodies. */
  onResponse?: (request: Request, outcome: Response | Error) => void;
}

/** Calls a server. */
export class WritClient extends Services {
  /** The OAuth endpoints. */
  override readonly oauth: OAuth;
  private readonly tokens: Tokens | undefined;

  constructor(options: WritClientOptions = {}) {
    const env: Record<string, string | undefined> = typeof process === "undefined" ? {} : process.env;
    const baseUrl = options.baseUrl || env["WRIT_BASE_URL"] || env["OIDC_ISSUER"];
    if (!baseUrl) throw new WritError("baseUrl is missing: say where the server is, or set WRIT_BASE_URL");
    if (!/^https?:\/\/[^/]/.test(baseUrl)) throw new WritError(`baseUrl ${JSON.stringify(baseUrl)} is not an absolute http or https URL`);
    const [id, secret] = [env["CLIENT_ID"], env["CLIENT_SECRET"]];
    const credentials =
      options.credentials ?? (env["WRIT_ADMIN_TOKEN"] || (id && secret ? clientCredentials({ id, secret }) : undefined));
    const tokens = credentials === undefined ? undefined : new Tokens(credentials);
    const core = new Core({
      baseUrl: baseUrl.replace(/\/+$/, ""),
      tokens,
      client: options.client ?? (id ? { id, ...(secret ? { secret } : {}) } : undefined),
      fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
      timeout: options.timeout ?? 60_000,
      retries: options.retries ?? 2,
      headers: options.headers ?? {},
      onRequest: options.onRequest,
      onResponse: options.onResponse,
    });
    super(core);
    this.oauth = new OAuth(core);
    this.tokens = tokens;
    if (tokens) tokens.oauth = this.oauth;
  }

  /** A token of the client's credentials, to use elsewhere. */
  async accessToken(): Promise<string> {
    if (!this.tokens) throw new WritError("the client has no credentials");
    return await this.tokens.get();
  }
}
