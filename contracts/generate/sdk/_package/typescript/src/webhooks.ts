import { WritError } from "./errors.js";
import type { EventPayload } from "./types.js";

/** A delivery that was not signed with the key, or too long ago. */
export class SignatureError extends WritError {
  override name = "SignatureError";
}

/**
 * Verifies a call of a target (Standard Webhooks) and returns its body, parsed.
 *
 * @param body What was received, before anything parsed it.
 * @param headers Those of the request: webhook-id, webhook-timestamp and webhook-signature.
 * @param key The signing key of the target (whsec_…), or both of them while it is being rotated.
 */
export async function verifyWebhook<T = EventPayload>(
  body: string,
  headers: Headers | Record<string, string | string[] | undefined>,
  key: string | readonly string[],
  options: { toleranceSeconds?: number } = {},
): Promise<T> {
  const header = (name: string) => (headers instanceof Headers ? headers.get(name) : [headers[name]].flat()[0]) ?? "";
  const [id, timestamp] = [header("webhook-id"), header("webhook-timestamp")];
  const age = Math.abs(Date.now() / 1000 - Number(timestamp || NaN));
  if (!id || !(age <= (options.toleranceSeconds ?? 300))) throw new SignatureError("the delivery has no ID, or is not of now");
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`);
  const signatures = header("webhook-signature").split(" ").filter((each) => each.startsWith("v1,"));
  for (const each of [key].flat()) {
    const secret = Uint8Array.from(atob(each.replace(/^whsec_/, "")), (char) => char.charCodeAt(0));
    const imported = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of signatures) {
      let bytes: Uint8Array<ArrayBuffer>;
      try {
        bytes = Uint8Array.from(atob(signature.slice(3)), (char) => char.charCodeAt(0));
      } catch {
        continue; // what is not base64 is no signature
      }
      if (await crypto.subtle.verify("HMAC", imported, bytes, signed)) return JSON.parse(body) as T;
    }
  }
  throw new SignatureError("the delivery was not signed with this key");
}
