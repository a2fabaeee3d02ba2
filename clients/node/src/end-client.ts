/** The end of a user's client, which adapters are asked for. */

/** How long a client may take to end by itself, in ms. */
const GRACE = 2000;

type End = (() => unknown) | undefined;

/** Ends a client of either library. Its calls under way have their time. */
export async function endClient(client: object): Promise<void> {
  const { close, quit, destroy, disconnect } = client as Readonly<Record<string, End>>;
  const atOnce = setTimeout(() => (destroy ?? disconnect)?.call(client), GRACE);
  try {
    await (close ?? quit)?.call(client); // of node-redis, of ioredis
  } catch {
    // It has ended already.
  } finally {
    clearTimeout(atOnce);
  }
}
