import type { CallOptions, Core, Operation } from "./core.js";

interface Page<Item> {
  result: Item[];
  details: { endOfList: boolean; position?: string };
}

interface SearchOptions extends CallOptions {
  offset?: number;
  after?: number;
}

/**
 * A search. Await it for one page, or go through it for all matches:
 *
 *     const page = await client.actions.searchTargets();
 *     for await (const target of client.actions.searchTargets()) …
 *
 * Pages are read one after the other as they are needed, at the offset of what came before: who changes what the
 * search is about collects first (`toArray`).
 */
export class Search<Reply extends Page<Item>, Item> implements PromiseLike<Reply>, AsyncIterable<Item> {
  constructor(
    private readonly core: Core,
    private readonly operation: Operation,
    private readonly options: SearchOptions,
  ) {}

  /** One page: what `await` gets. */
  page(): Promise<Reply> {
    return this.core.call<Reply>(this.operation, this.options);
  }

  then<A = Reply, B = never>(resolved?: ((reply: Reply) => A | PromiseLike<A>) | null, rejected?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
    return this.page().then(resolved, rejected);
  }

  /** All pages, one after the other. */
  async *pages(): AsyncGenerator<Reply, void, void> {
    let query = { ...this.operation.query };
    for (;;) {
      const reply = await this.core.call<Reply>({ ...this.operation, query }, this.options);
      yield reply;
      if (query["after"] !== undefined && reply.details.position !== undefined) {
        query = { ...query, after: reply.details.position };
      } else if (reply.result.length === 0) {
        return;
      } else {
        query = { ...query, "query.offset": Number(query["query.offset"] ?? 0) + reply.result.length };
      }
      if (reply.details.endOfList) return;
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, void> {
    for await (const page of this.pages()) yield* page.result;
  }

  /** All matches at once. */
  async toArray(): Promise<Item[]> {
    const all: Item[] = [];
    for await (const item of this) all.push(item);
    return all;
  }
}
