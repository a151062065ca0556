/** A 64-bit integer: a text, because a number of JavaScript cannot hold all of them. Use BigInt(text). */
export type Int64 = string;

/** A time in RFC 3339, with up to nine digits of a second. Use new Date(text), or date.toISOString(). */
export type Timestamp = string;

/** A length of time in seconds: "10s", "1.5s". */
export type Duration = `${number}s`;

/** Bytes in base64. */
export type Base64 = string;

/** An object whose members the contract leaves open. */
export type JsonObject = Record<string, unknown>;

/** One of some texts, or another that is not known yet. */
export type Open<T extends string> = T | (string & Record<never, never>);

/** Exactly one of the members of T. */
export type ExactlyOneOf<T> = { [K in keyof T]: { [P in K]: T[P] } & { [P in Exclude<keyof T, K>]?: never } }[keyof T];

/** One of the members of T, or none. */
export type AtMostOneOf<T> = ExactlyOneOf<T> | { [P in keyof T]?: never };

/** A duration as the API writes it. */
export function seconds(length: number): Duration {
  return `${length.toFixed(9).replace(/\.?0+$/, "") as `${number}`}s`;
}

/** A duration of the API as a number of seconds. */
export function inSeconds(duration: Duration | string): number {
  return Number(duration.replace(/s$/, ""));
}
