/** What ends with a test, the last one first. */

import { afterEach } from "node:test";

export const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** Ends with the test. */
export async function forThisTest<T extends { stop(): Promise<void> }>(started: Promise<T>): Promise<T> {
  const it = await started;
  ends.push(() => it.stop());
  return it;
}
