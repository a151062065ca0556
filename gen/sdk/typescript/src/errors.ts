import type { Reason } from "./reasons.js";
import type { Open } from "./values.js";

/** The kind of a refusal: the name of a google.rpc.Code. */
export type Code = Open<(typeof codes)[number]>;

const codes = [
  "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
  "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
  "UNAUTHENTICATED",
] as const;

/** Whatever this package throws, but for what your own code threw or aborted with. */
export class WritError extends Error {
  override name = "WritError";
}

/** A field that was refused. */
export interface FieldViolation {
  field: string;
  description: string;
}

/** What an answer that refuses has in common. */
abstract class Refusal extends WritError {
  /** The HTTP status. */
  readonly status: number;
  /** Finds the call in the logs of the server. */
  readonly requestId: string | undefined;
  /** How many seconds the server asks to wait. */
  readonly retryAfter: number | undefined;
  readonly headers: Headers;
  /** What was received, as it is. */
  readonly body: string;

  constructor(message: string, answer: { status: number; headers: Headers; text: string }) {
    const requestId = answer.headers.get("x-request-id") ?? undefined;
    super(requestId ? `${message} (request ${requestId})` : message);
    this.status = answer.status;
    this.requestId = requestId;
    this.retryAfter = retryAfter(answer.headers);
    this.headers = answer.headers;
    this.body = answer.text;
  }
}

/** A refusal of the API. */
export class ApiError extends Refusal {
  override name = "ApiError";
  readonly code: Code;
  /** What programs compare. It is stable; undefined when not the server answered but a proxy. */
  readonly reason: Reason | undefined;
  /** The fields that were refused. */
  readonly violations: readonly FieldViolation[];

  constructor(code: Code, reason: Reason | undefined, sentence: string, violations: FieldViolation[], answer: { status: number; headers: Headers; text: string }) {
    super(`${code}${reason ? ` ${reason}` : ""}: ${sentence}`, answer);
    this.code = code;
    this.reason = reason;
    this.violations = violations;
  }
}

/** A refusal of an OAuth endpoint (RFC 6749, section 5.2). */
export class OAuthError extends Refusal {
  override name = "OAuthError";
  /** invalid_grant, invalid_client, … */
  readonly error: string;
  readonly description: string | undefined;

  constructor(error: string, description: string | undefined, answer: { status: number; headers: Headers; text: string }) {
    super(description ? `${error}: ${description}` : error, answer);
    this.error = error;
    this.description = description;
  }
}

/** There was no answer; `cause` says why. */
export class ConnectionError extends WritError {
  override name = "ConnectionError";
}

/** The time for the call is over. */
export class TimeoutError extends WritError {
  override name = "TimeoutError";
}

/** Says whether an error is a refusal for one of these reasons. */
export function isReason(error: unknown, ...reasons: Reason[]): error is ApiError {
  return error instanceof ApiError && error.reason !== undefined && reasons.includes(error.reason);
}

/** What Retry-After says, in seconds. */
export function retryAfter(headers: Headers): number | undefined {
  const text = headers.get("retry-after");
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - Date.now()) / 1000);
}

const codeOfStatus: Record<number, Code> = {
  400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS", 429: "RESOURCE_EXHAUSTED",
  502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "UNAVAILABLE",
};

/** An answer as an error. */
export function refusal(answer: { status: number; headers: Headers; text: string }): ApiError | OAuthError {
  let body: { error?: unknown; error_description?: unknown; code?: unknown; message?: unknown; details?: unknown } = {};
  try {
    body = (JSON.parse(answer.text) as typeof body | null) ?? {};
  } catch {
    // a proxy answered
  }
  if (typeof body.error === "string") {
    return new OAuthError(body.error, typeof body.error_description === "string" ? body.error_description : undefined, answer);
  }
  if (typeof body.code !== "number") {
    const code = codeOfStatus[answer.status] ?? (answer.status >= 500 ? "INTERNAL" : "UNKNOWN");
    return new ApiError(code, undefined, `HTTP ${answer.status}`, [], answer);
  }
  const details = (Array.isArray(body.details) ? body.details : []) as { reason?: Reason; fieldViolations?: FieldViolation[] }[];
  const reason = details.find((detail) => detail.reason)?.reason;
  const violations = details.flatMap((detail) => detail.fieldViolations ?? []);
  return new ApiError(codes[body.code] ?? `CODE_${body.code}`, reason, String(body.message), violations, answer);
}
