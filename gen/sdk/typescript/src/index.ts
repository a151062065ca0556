/**
 * Calls Writ, an identity platform, over HTTP and JSON.
 *
 * @packageDocumentation
 */

export { WritClient, type WritClientOptions } from "./client.js";
export type { CallOptions, Answer } from "./core.js";
export { apiScope, clientCredentials, keyFile, refreshToken, systemUser } from "./credentials.js";
export type { AccessToken, Credentials, KeyFile, TokenSource } from "./credentials.js";
export { ApiError, ConnectionError, OAuthError, TimeoutError, WritError, isReason } from "./errors.js";
export type { Code, FieldViolation } from "./errors.js";
export { OAuth, type Authorization, type AuthorizeOptions } from "./oauth.js";
export type { Reason } from "./reasons.js";
export { Search } from "./search.js";
export * from "./services.js";
export * from "./types.js";
export * from "./values.js";
export { SignatureError, WebhookVerifier } from "./webhooks.js";
