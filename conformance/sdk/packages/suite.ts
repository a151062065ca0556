// The calls of packages_test.go through the package for TypeScript.
import assert from "node:assert/strict";
import { all } from "./examples.js";
import {
  ApiError, ConnectionError, OAuthError, Search, TargetFieldName, TextFilterMethod, TimeoutError, WritClient, clientCredentials, inSeconds, isReason,
  SignatureError, keyFile, refreshToken, seconds, systemUser, WebhookVerifier, type EventPayload, type Target, type WritClientOptions,
} from "@writ-id/sdk";

const env = (name: string): string => process.env[name] ?? assert.fail(`${name} is missing`);
const proxy = env("WRIT_TEST_PROXY");
const name = `SDK typescript ${env("WRIT_TEST_RUN")}`;
const target = (name: string, more: Partial<Target> = {}) => ({ name, restWebhook: { url: "https://hooks.example/a" }, timeout: "10s", ...more }) as Target;

/** A client whose requests something happens to on the way; attempts says how many there were. */
function faulty(fault: string, options: WritClientOptions = {}) {
  const attempts: string[] = [];
  const client = new WritClient({
    baseUrl: proxy,
    headers: { "x-fault": fault, "x-fault-key": crypto.randomUUID() },
    onRequest: (request) => void attempts.push(new URL(request.url).pathname),
    ...options,
  });
  return { client, attempts };
}

async function thrown<E>(kind: abstract new (...args: never[]) => E, work: PromiseLike<unknown>): Promise<E> {
  try {
    await work;
  } catch (error) {
    if (error instanceof kind) return error;
    throw error;
  }
  return assert.fail(`nothing was thrown, not even ${kind.name}`);
}

const client = new WritClient(); // from the environment
let id = "";

const steps: Record<string, () => Promise<void>> = {
  async create() {
    const reply = await client.actions.createTarget(target(name, { isAsync: true }));
    id = reply.details.id;
    assert.match(id, /^[0-9a-f-]{36}$/);
    assert.match(reply.signingKey, /^whsec_/);
  },
  async get() {
    const { target: read } = await client.actions.getTarget(id);
    assert.equal(read.target.name, name);
    assert.equal(read.target.timeout, "10s");
    assert.equal(read.target.isAsync, true);
    assert.equal(read.target.interruptOnError, undefined); // missing, not null
  },
  async search() {
    for (const n of [1, 2, 3]) await client.actions.createTarget(target(`${name} ${n}`));
    const mine = [{ name: { name, method: TextFilterMethod.STARTS_WITH } }];
    const found = client.actions.searchTargets(mine, { limit: 2, asc: true, sortingColumn: TargetFieldName.NAME });
    assert.ok(found instanceof Search);
    const names: string[] = [];
    for await (const each of found) names.push(each.target.name);
    assert.deepEqual(names, [name, `${name} 1`, `${name} 2`, `${name} 3`]);
    const page = await found;
    assert.equal(page.result.length, 2);
    assert.equal(page.details.endOfList, false);
    assert.equal(BigInt(page.details.totalResult), 4n);
  },
  async patch() {
    await client.actions.patchTarget(id, { timeout: "5s" });
    const { target: read } = await client.actions.getTarget(id);
    assert.deepEqual([read.target.name, read.target.timeout, read.target.isAsync], [name, "5s", true]);
  },
  async oneof() {
    await client.actions.patchTarget(id, { restRequestResponse: { url: "https://hooks.example/b" } });
    const { target: read } = await client.actions.getTarget(id);
    assert.equal(read.target.restWebhook, undefined);
    assert.equal(read.target.restRequestResponse?.url, "https://hooks.example/b");
    // @ts-expect-error: the compiler knows that it is one or the other
    const both: Target = { name, timeout: "1s", restWebhook: { url: "https://a.example" }, restRequestResponse: { url: "https://a.example" } };
    assert.ok(both);
  },
  async reason() {
    const error = await thrown(ApiError, client.actions.createTarget(target(name)));
    assert.ok(isReason(error, "TARGET_NAME_TAKEN"));
    assert.deepEqual([error.status, error.code, error.reason], [409, "ALREADY_EXISTS", "TARGET_NAME_TAKEN"]);
    assert.ok(error.requestId && error.message.includes(error.requestId));
    assert.ok(JSON.parse(error.body));
  },
  async violation() {
    const error = await thrown(ApiError, client.actions.createTarget(target("")));
    assert.deepEqual([error.status, error.code], [400, "INVALID_ARGUMENT"]);
    assert.equal(error.violations[0]?.field, "name");
  },
  async missing() {
    const error = await thrown(ApiError, client.actions.getTarget("nobody"));
    assert.deepEqual([error.status, error.code], [404, "NOT_FOUND"]);
    await assert.rejects(client.actions.getTarget(".."), /is not an ID/);
  },
  async numbers() {
    const { client, attempts } = faulty("future");
    const { target: read } = await client.actions.getTarget(id);
    assert.equal(BigInt(read.details.sequence), 18446744073709551615n);
    assert.equal(attempts.length, 1);
  },
  async times() {
    const { target: read } = await client.actions.getTarget(id);
    assert.ok(Math.abs(new Date(read.details.changeDate).getTime() - Date.now()) < 3_600_000);
  },
  async durations() {
    await client.actions.patchTarget(id, { timeout: seconds(1.5) });
    assert.equal(inSeconds((await client.actions.getTarget(id)).target.target.timeout), 1.5);
  },
  async unknown() {
    const { client } = faulty("future");
    const page = await client.actions.searchTargets([], { limit: 1 });
    assert.equal(page.sortingColumn, "TARGET_FIELD_NAME_OF_TOMORROW");
    assert.ok("fromTomorrow" in page);
  },
  async omitted() {
    const { client } = faulty("omit");
    assert.equal((await client.actions.searchTargets([], { limit: 1 })).result.length, 1);
  },
  async retry() {
    const { client, attempts } = faulty("unavailable"); // twice, with Retry-After
    assert.equal((await client.actions.getTarget(id)).target.details.id, id);
    assert.equal(attempts.length, 3);
  },
  async "no retry"() {
    const create = faulty("unavailable"); // it may have happened
    assert.equal((await thrown(ApiError, create.client.actions.createTarget(target(`${name} 9`)))).status, 503);
    const off = faulty("unavailable", { retries: 0 });
    const error = await thrown(ApiError, off.client.actions.getTarget(id));
    assert.deepEqual([error.code, error.retryAfter], ["UNAVAILABLE", 0]);
    const lost = faulty("lost");
    await thrown(ConnectionError, lost.client.actions.patchTarget(id, {}));
    const refused = faulty("none");
    await thrown(ApiError, refused.client.actions.getTarget("nobody"));
    assert.deepEqual([create, off, lost, refused].map(({ attempts }) => attempts.length), [1, 1, 1, 1]);
  },
  async timeout() {
    const { client } = faulty("hang");
    await thrown(TimeoutError, client.actions.getTarget(id, { timeout: 50 }));
  },
  async cancel() {
    const { client } = faulty("hang");
    const controller = new AbortController();
    const reason = new Error("not any more");
    setTimeout(() => controller.abort(reason), 20);
    await assert.rejects(client.actions.getTarget(id, { signal: controller.signal }), reason);
  },
  async "client credentials"() {
    const as = new WritClient({ credentials: clientCredentials({ id: env("WRIT_TEST_SERVICE"), secret: env("WRIT_TEST_SERVICE_SECRET") }) });
    assert.ok((await as.oauth.getUserInfo()).sub);
  },
  async "key file"() {
    const user = (await client.users.createUser({ username: name.toLowerCase().replaceAll(" ", "-"), service: { name } })).details.id;
    const key = await client.users.createMachineKey(user, { type: "MACHINE_KEY_TYPE_RSA_2048" });
    const as = new WritClient({ credentials: keyFile(atob(key.keyDetails)) });
    assert.equal((await as.oauth.getUserInfo()).sub, user);
    const modern = await client.users.createMachineKey(user, { type: "MACHINE_KEY_TYPE_EC_P256" });
    assert.equal((await new WritClient({ credentials: keyFile(atob(modern.keyDetails)) }).oauth.getUserInfo()).sub, user);
  },
  async "system user"() {
    const as = new WritClient({ baseUrl: env("WRIT_TEST_NODE"), credentials: systemUser({ name: "automation", key: env("WRIT_TEST_SYSTEM_KEY") }) });
    assert.ok((await as.instances.searchInstances().toArray()).length > 0);
  },
  async "refresh token"() {
    const saved: string[] = [];
    const { client, attempts } = faulty("none", {
      credentials: refreshToken({
        clientId: env("CLIENT_ID"), clientSecret: env("CLIENT_SECRET"), refreshToken: env("WRIT_TEST_REFRESH_TOKEN"), save: (token) => void saved.push(token),
      }),
    });
    const subjects = await Promise.all(Array.from({ length: 10 }, async () => (await client.oauth.getUserInfo()).sub));
    assert.equal(new Set(subjects).size, 1);
    assert.equal(attempts.filter((path) => path === "/oauth/v2/token").length, 1);
    assert.equal(saved.length, 1);
    assert.notEqual(saved[0], env("WRIT_TEST_REFRESH_TOKEN"));
  },
  async "revoked token"() {
    let asked = 0;
    const { client } = faulty("unauthenticated", { credentials: () => ({ value: (asked++, env("WRIT_ADMIN_TOKEN")) }) });
    await client.actions.getTarget(id);
    assert.equal(asked, 2);
  },
  async "oauth error"() {
    const error = await thrown(OAuthError, client.oauth.token({ grant_type: "client_credentials" }, { client: { id: env("CLIENT_ID"), secret: "wrong" } }));
    assert.deepEqual([error.status, error.error], [401, "invalid_client"]);
  },
  async login() {
    assert.equal((await client.oauth.getConfiguration()).issuer, env("OIDC_ISSUER"));
    const { url, state } = await client.oauth.authorize({ clientId: env("CLIENT_ID"), redirectUri: "https://app.example/back" });
    assert.equal(new URL(url).searchParams.get("state"), state);
    const error = await thrown(OAuthError, client.oauth.exchange("no-code", "https://app.example/back", "no-verifier"));
    assert.equal(error.error, "invalid_grant");
    assert.equal((await client.oauth.introspect({ token: "nothing" })).active, false);
    await client.oauth.revoke({ token: "nothing" });
  },
  async tracing() {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const seen: (string | null)[] = [];
    const { client } = faulty("none", {
      onRequest: (request) => request.headers.set("traceparent", traceparent),
      onResponse: (_, outcome) => void (outcome instanceof Response && seen.push(outcome.headers.get("x-seen-traceparent"))),
    });
    let status = 0;
    await client.actions.getTarget(id, { onAnswer: (answer) => (status = answer.status) });
    assert.deepEqual([seen, status], [[traceparent], 200]);
  },
  async webhook() {
    type Delivery = { name: string; keys: string[]; body: string; headers: Record<string, string>; want: string };
    const deliveries = JSON.parse(env("WRIT_TEST_DELIVERIES")) as Delivery[];
    assert.ok(deliveries.length > 0);
    for (const { name, keys, body, headers, want } of deliveries) {
      if (want === "key") {
        assert.throws(() => new WebhookVerifier(keys), TypeError, name);
        continue;
      }
      const verifier = new WebhookVerifier(keys);
      if (want === "signature") {
        await thrown(SignatureError, verifier.verify(body, headers));
        continue;
      }
      const event: EventPayload = await verifier.verify(new TextEncoder().encode(body), headers);
      assert.equal(event.event_type, "user.human.added", name);
      await verifier.verify(body, new Headers(headers));
    }
    assert.throws(() => new WebhookVerifier(""), TypeError);
  },
  async "export and import"() {
    const file = await client.administration.exportData({ org_ids: [env("WRIT_TEST_ORG")], response_output: true });
    assert.equal(file.organizations.length, 1);
    const report = await client.administration.importData({ data_orgsv1: file, dry_run: true, on_conflict: "skip" });
    assert.ok(report);
    const started = await client.administration.startExportData({ org_ids: [env("WRIT_TEST_ORG")], response_output: true });
    assert.ok(started.id);
  },
  async examples() {
    // On a server of their own: they change what they can. There may be nothing of that ID, or already something of that
    // name, or the transfer of an example before still runs; but the server understood the example.
    const understood = ["NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "PERMISSION_DENIED", "UNAUTHENTICATED"];
    const refused: string[] = [];
    for (const [name, example] of Object.entries(all)) {
      const token = /exportData|importData|operation|userInfo/i.test(name) ? env("WRIT_TEST_OWN_TOKEN") : env("WRIT_TEST_OWN_SYSTEM_TOKEN");
      try {
        await example(new WritClient({ baseUrl: env("WRIT_TEST_OWN"), credentials: token }));
      } catch (error) {
        const took = error instanceof ApiError && (understood.includes(error.code) || error.reason === "TRANSFERS_RUNNING");
        if (!(error instanceof OAuthError) && !took) refused.push(`${name}: ${error}`);
      }
    }
    assert.deepEqual(refused, []);
  },
  async delete() {
    const mine = await client.actions.searchTargets([{ name: { name, method: TextFilterMethod.STARTS_WITH } }]).toArray();
    for (const each of mine) await client.actions.deleteTarget(each.details.id);
    assert.equal((await thrown(ApiError, client.actions.getTarget(id))).code, "NOT_FOUND");
  },
};

for (const [step, run] of Object.entries(steps)) {
  try {
    await run();
    console.log(step);
  } catch (error) {
    console.error(`${step}:`, error);
    process.exit(1);
  }
}
