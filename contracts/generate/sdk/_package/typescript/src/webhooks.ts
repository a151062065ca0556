import { WritError } from "./errors.js";
import type { EventPayload } from "./types.js";

/** A delivery that was not signed with the key, or too long ago. */
export class SignatureError extends WritError {
  override name = "SignatureError";
}

/** Verifies the calls of a target (Standard Webhooks). */
export class WebhookVerifier {
  readonly #keys: readonly Uint8Array<ArrayBuffer>[];
  readonly #tolerance: number;

  /**
   * @param key The signing key of the target (whsec_…), or both of them while it is being rotated. A TypeError
   * says that there is none, or that one is not whsec_ and the base64 of at least 24 bytes.
   */
  constructor(key: string | readonly string[], options: { toleranceSeconds?: number } = {}) {
    this.#keys = [key].flat().map((each, index) => {
      const secret = /^whsec_[A-Za-z0-9+/]+={0,2}$/.test(each) ? decoded(each.slice("whsec_".length)) : undefined;
      if (!secret || secret.length < 24) throw new TypeError(`signing key ${index + 1} is not whsec_ and the base64 of at least 24 bytes`);
      return secret;
    });
    if (this.#keys.length === 0) throw new TypeError("there is no signing key to verify deliveries with");
    this.#tolerance = options.toleranceSeconds ?? 300;
  }

  /**
   * Returns the body of a delivery, parsed, or throws a SignatureError.
   *
   * @param body What was received, before anything parsed it.
   * @param headers Those of the request: webhook-id, webhook-timestamp and webhook-signature.
   */
  async verify<T = EventPayload>(
    body: string | Uint8Array, headers: Headers | Record<string, string | string[] | undefined>,
  ): Promise<T> {
    const all = headers instanceof Headers ? headers : lowered(headers);
    const [id, timestamp] = [all.get("webhook-id") ?? "", all.get("webhook-timestamp") ?? ""];
    const current = /^[0-9]{1,12}$/.test(timestamp) && Math.abs(Date.now() / 1000 - Number(timestamp)) <= this.#tolerance;
    if (!id || !current) throw new SignatureError("the delivery has no ID, or is not of now");
    const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const head = new TextEncoder().encode(`${id}.${timestamp}.`);
    const signed = new Uint8Array(head.length + content.length);
    signed.set(head);
    signed.set(content, head.length);
    const signatures = (all.get("webhook-signature") ?? "").split(" ").filter((each) => each.startsWith("v1,"));
    for (const key of this.#keys) {
      const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
      for (const signature of signatures) {
        const bytes = decoded(signature.slice("v1,".length));
        if (bytes && (await crypto.subtle.verify("HMAC", imported, bytes, signed))) return JSON.parse(new TextDecoder().decode(content)) as T;
      }
    }
    throw new SignatureError("the delivery was not signed with this key");
  }
}

function lowered(headers: Record<string, string | string[] | undefined>): Map<string, string> {
  return new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value].flat()[0] ?? ""]));
}

/** Returns the bytes of standard base64 with its padding; undefined of anything else. */
function decoded(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return undefined;
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}
