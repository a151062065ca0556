/**
 * Calls Writ, an identity platform, over HTTP and JSON.
 *
 * @packageDocumentation
 */

export { WritClient, type WritClientOptions } from "./client.js";
export type { CallOptions, Answer } from "./core.js";
export * from "./credentials.js";
export * from "./errors.js";
export { OAuth, type Authorization, type AuthorizeOptions } from "./oauth.js";
export type { Reason } from "./reasons.js";
export { Search } from "./search.js";
export * from "./services.js";
export * from "./types.js";
export * from "./values.js";
