import { Tokens } from "./credentials.js";
import { ConnectionError, TimeoutError, WritError, refusal, retryAfter } from "./errors.js";
import { version } from "./services.js";

/** What any call takes besides. */
export interface CallOptions {
  /** Cancels the call, which then throws the reason of the signal. */
  signal?: AbortSignal;
  /** The most milliseconds that the call may take, with all its attempts and waits; 0 is no limit. */
  timeout?: number;
  /** How many further attempts there may be. */
  retries?: number;
  /** Sent along. */
  headers?: Record<string, string>;
  /**
   * The call may be repeated when its answer was lost, although it may have happened: otherwise only reads, PUT and
   * DELETE are.
   */
  repeatable?: boolean;
  /** Who calls an OAuth endpoint; a public client has no secret. */
  client?: { id: string; secret?: string };
  /** Sees what was answered. */
  onAnswer?: (answer: Answer) => void;
}

/** What a call was answered with. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

/** A call as the contract describes it. */
export interface Operation {
  verb: string;
  path: string;
  args?: readonly string[];
  query?: Record<string, string | number | boolean | undefined>;
  header?: Record<string, string | undefined>;
  body?: unknown;
  form?: object;
  repeatable?: boolean;
  auth?: "bearer" | "client" | "none";
}

export interface CoreOptions {
  baseUrl: string;
  tokens: Tokens | undefined;
  client: { id: string; secret?: string } | undefined;
  fetch: typeof globalThis.fetch;
  timeout: number;
  retries: number;
  headers: Record<string, string>;
  onRequest: ((request: Request) => void | Promise<void>) | undefined;
  onResponse: ((request: Request, outcome: Response | Error) => void) | undefined;
}

// Milliseconds that are waited between attempts, and at most when the server says how long.
const firstPause = 500;
const mostPause = 8_000;
const mostAsked = 60_000;

/** Sends the calls of all services. */
export class Core {
  constructor(readonly options: CoreOptions) {}

  async call<T>(operation: Operation, options: CallOptions = {}): Promise<T> {
    const limit = new Limit(options.timeout ?? this.options.timeout, options.signal, `${operation.verb} ${operation.path}`);
    try {
      const answer = await this.send(operation, options, limit);
      options.onAnswer?.(answer);
      return (answer.text === "" ? undefined : JSON.parse(answer.text)) as T;
    } finally {
      limit.end();
    }
  }

  /** Makes attempts until one is answered for good. */
  private async send(operation: Operation, options: CallOptions, limit: Limit): Promise<Answer> {
    const retries = options.retries ?? this.options.retries;
    const repeatable = operation.repeatable || options.repeatable || false;
    let refreshed = false;
    for (let attempt = 0; ; attempt++) {
      let wait: number | undefined;
      let failure: Error;
      const request = this.request(operation, options, limit.signal);
      const token = await this.authenticate(request, operation, options, limit);
      try {
        const answer = await this.attempt(request, limit);
        if (answer.status < 300) return answer;
        if (answer.status === 401 && token !== undefined && !refreshed && this.options.tokens?.drop(token)) {
          refreshed = true; // the token was revoked: the next one is asked for, once
          attempt--;
          continue;
        }
        failure = refusal(answer);
        // With 429 nothing was done yet.
        if (answer.status !== 429 && !(repeatable && [502, 503, 504].includes(answer.status))) throw failure;
        const asked = retryAfter(answer.headers);
        if (asked !== undefined) {
          wait = asked * 1000;
          if (wait > mostAsked) throw failure;
        }
      } catch (error) {
        if (!(error instanceof ConnectionError) || !(repeatable || unsent(error))) throw error;
        failure = error;
      }
      if (attempt >= retries) throw failure;
      const most = Math.min(firstPause * 2 ** attempt, mostPause);
      wait ??= most / 2 + (Math.random() * most) / 2;
      if (wait > limit.left()) throw failure;
      await limit.wait(wait);
    }
  }

  private request(operation: Operation, options: CallOptions, signal: AbortSignal): Request {
    const args = [...(operation.args ?? [])];
    const path = operation.path.replace(/\{[^}]*\}/g, () => segment(args.shift(), operation));
    const url = new URL(this.options.baseUrl + path);
    for (const [name, value] of Object.entries(operation.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers = new Headers({ ...this.options.headers, ...options.headers, accept: "application/json" });
    for (const [name, value] of Object.entries(operation.header ?? {})) {
      if (value !== undefined) headers.set(name, value);
    }
    // Browsers say what they are, and another header would have to be allowed by CORS.
    if (typeof process !== "undefined" && !headers.has("user-agent")) headers.set("user-agent", `writ-sdk-typescript/${version}`);
    let body: string | undefined;
    if (operation.form) {
      const form = new URLSearchParams();
      for (const [name, value] of Object.entries(operation.form) as [string, unknown][]) {
        if (value !== undefined) for (const each of Array.isArray(value) ? value : [value]) form.append(name, String(each));
      }
      const client = options.client ?? this.options.client;
      if (client?.id && !client.secret && !form.has("client_id")) form.set("client_id", client.id);
      body = form.toString();
      headers.set("content-type", "application/x-www-form-urlencoded");
    } else if (operation.body !== undefined) {
      body = JSON.stringify(operation.body);
      headers.set("content-type", "application/json");
    }
    return new Request(url, { method: operation.verb, headers, signal, ...(body === undefined ? {} : { body }) });
  }

  /** Adds who calls, and returns the access token if it is one of this client's. */
  private async authenticate(request: Request, operation: Operation, options: CallOptions, limit: Limit): Promise<string | undefined> {
    if (request.headers.has("authorization")) return undefined;
    if (operation.auth === "client") {
      const client = options.client ?? this.options.client;
      if (client?.secret) request.headers.set("authorization", `Basic ${btoa(`${formEncoded(client.id)}:${formEncoded(client.secret)}`)}`);
      return undefined;
    }
    if (operation.auth === "none" || !this.options.tokens) return undefined;
    const token = await limit.race(this.options.tokens.get());
    request.headers.set("authorization", `Bearer ${token}`);
    return token;
  }

  private async attempt(request: Request, limit: Limit): Promise<Answer> {
    await this.options.onRequest?.(request);
    try {
      const response = await this.options.fetch(request);
      this.options.onResponse?.(request, response);
      return { status: response.status, headers: response.headers, text: await response.text() };
    } catch (error) {
      limit.check();
      const failure = new ConnectionError(`no answer of ${request.url.split("?")[0]}`, { cause: error });
      this.options.onResponse?.(request, failure);
      throw failure;
    }
  }
}

/** Says whether a request never left: then nothing can have happened. */
function unsent(error: ConnectionError): boolean {
  const cause = (error.cause as { cause?: { code?: string } } | undefined)?.cause;
  return ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(cause?.code ?? "");
}

function segment(value: string | undefined, operation: Operation): string {
  if (typeof value !== "string" || value === "" || value === "." || value === "..") {
    throw new WritError(`${operation.verb} ${operation.path}: ${JSON.stringify(value)} is not an ID`);
  }
  return encodeURIComponent(value);
}

function formEncoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}

/** Bounds a call by its timeout and the caller's signal. */
class Limit {
  readonly signal: AbortSignal;
  private readonly controller = new AbortController();
  private readonly begun = Date.now();
  private readonly timer: ReturnType<typeof setTimeout> | undefined;
  private readonly abort = () => this.controller.abort(this.caller?.reason);

  constructor(private readonly timeout: number, private readonly caller: AbortSignal | undefined, call: string) {
    this.signal = this.controller.signal;
    caller?.throwIfAborted();
    caller?.addEventListener("abort", this.abort, { once: true });
    if (timeout > 0) {
      this.timer = setTimeout(() => this.controller.abort(new TimeoutError(`${call} took more than ${timeout} ms`)), timeout);
    }
  }

  left(): number {
    return this.timeout > 0 ? this.timeout - (Date.now() - this.begun) : Infinity;
  }

  /** Throws why the call ended, if it did. */
  check(): void {
    if (this.signal.aborted) throw this.signal.reason;
  }

  async race<T>(work: Promise<T>): Promise<T> {
    this.check();
    let stop = (): void => {};
    const ended = new Promise<never>((_, reject) => {
      stop = () => reject(this.signal.reason as Error);
      this.signal.addEventListener("abort", stop, { once: true });
    });
    try {
      return await Promise.race([work, ended]);
    } finally {
      this.signal.removeEventListener("abort", stop);
    }
  }

  async wait(milliseconds: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      await this.race(new Promise<void>((resolve) => (timer = setTimeout(resolve, milliseconds))));
    } finally {
      clearTimeout(timer);
    }
  }

  end(): void {
    clearTimeout(this.timer);
    this.caller?.removeEventListener("abort", this.abort);
  }
}
